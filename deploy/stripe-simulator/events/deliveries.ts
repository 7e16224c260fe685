import { setTimeout as delay } from "node:timers/promises";
import Stripe from "stripe";
import type { World } from "../state/world.ts";
import { NO_SWITCHES, type Switches, takeSwitch } from "./switches.ts";

/** An event on its way to an endpoint; `due` is a time of the simulator's clock. */
export type Delivery = { id: string; event: string; endpoint: string; attempts: number; due: number };

/** Seconds of the simulator's clock between attempts; after the last one Stripe gives up, about three days on. */
const BACKOFF = [5, 60, 300, 1800, 7200, 18_000, 36_000, 43_200, 43_200, 43_200, 43_200];
const TIMEOUT_MS = 10_000;

const { webhooks: SIGNER } = new Stripe("sk_test_unused");

export type Webhooks = ReturnType<typeof createWebhooks>;

/** Sends events to webhook endpoints, one after the other for each, and again until they are answered 2xx. */
export function createWebhooks(world: World, changed: () => void) {
  const { deliveries, events, webhookEndpoints } = world.state;
  const switches: Switches = { ...NO_SWITCHES };
  const stopping = new AbortController();
  let held: Delivery[] = [];
  let sending: Promise<void> | undefined;

  function schedule(delivery: Delivery): void {
    if (takeSwitch(switches, "drop")) return;
    if (takeSwitch(switches, "reorder")) {
      held.push(delivery);
      if (switches.reorder > 0) return;
      for (const late of held.reverse()) deliveries.set(late.id, late);
      held = [];
      return;
    }
    deliveries.set(delivery.id, delivery);
    if (takeSwitch(switches, "duplicate"))
      deliveries.set(`${delivery.id}_again`, { ...delivery, id: `${delivery.id}_again` });
  }

  const nextDue = () => deliveries.values().find(({ due }) => due <= world.clock.now());

  async function sendAll(): Promise<void> {
    for (let next = nextDue(); next && !stopping.signal.aborted; next = nextDue()) {
      const delivery = next;
      const outcome = await send(delivery).catch(() => "failed" as const);
      if (stopping.signal.aborted) return;
      if (outcome === "done") deliveries.delete(delivery.id);
      else retryLater(delivery);
    }
    // What a crash forgets here is sent once more.
    changed();
  }

  function retryLater(delivery: Delivery): void {
    const wait = BACKOFF[delivery.attempts];
    delivery.attempts++;
    // At the end of the queue, so that others overtake it.
    deliveries.delete(delivery.id);
    if (wait !== undefined) deliveries.set(delivery.id, { ...delivery, due: world.clock.now() + wait });
  }

  async function send({ event: eventId, endpoint: endpointId }: Delivery): Promise<"done" | "failed"> {
    const event = events.get(eventId);
    const endpoint = webhookEndpoints.get(endpointId);
    if (!event || !endpoint) return "done";
    if (switches.delay_ms > 0) await delay(switches.delay_ms, undefined, { signal: stopping.signal });
    const payload = JSON.stringify(event);
    const signature = SIGNER.generateTestHeaderString({ payload, secret: endpoint.secret ?? "" });
    const response = await fetch(endpoint.url, {
      method: "POST",
      headers: { "content-type": "application/json; charset=utf-8", "stripe-signature": signature },
      body: takeSwitch(switches, "tamper") ? payload.replace('"livemode":false', '"livemode":true') : payload,
      redirect: "manual",
      signal: AbortSignal.any([stopping.signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    if (!response.ok) return "failed";
    event.pending_webhooks = Math.max(0, event.pending_webhooks - 1);
    return "done";
  }

  /** Sends what is due. */
  function pump(): Promise<void> {
    if (!sending && !nextDue()) return Promise.resolve();
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (!stopping.signal.aborted && nextDue()) void pump();
    });
    return sending;
  }

  return {
    schedule,
    pump,
    /** Sets switches; the others stay as they are. */
    set: (change: Partial<Switches>): void => {
      Object.assign(switches, change);
    },
    switches: (): Switches => ({ ...switches }),
    /** Returns the deliveries that were not answered 2xx yet. */
    pending: (): Delivery[] => [...deliveries.values()].map((delivery) => ({ ...delivery })),
    /** Tries all pending deliveries now, those held by `reorder` too. Resolves when each was tried. */
    async flush(): Promise<void> {
      for (const late of held.reverse()) deliveries.set(late.id, late);
      held = [];
      switches.reorder = 0;
      await sending;
      for (const delivery of deliveries.values()) delivery.due = Math.min(delivery.due, world.clock.now());
      await pump();
    },
    stop: async () => {
      stopping.abort();
      await sending;
    },
  };
}
