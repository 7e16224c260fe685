import { setTimeout as delay } from "node:timers/promises";
import Stripe from "stripe";
import type { Delivery } from "../state/state.ts";
import type { World } from "../state/world.ts";
import { NO_SWITCHES, type Switches, takeSwitch } from "./switches.ts";

/** Seconds of the simulator's clock between attempts; after the last one Stripe gives up, about three days on. */
const BACKOFF = [5, 60, 300, 1800, 7200, 18_000, 36_000, 43_200, 43_200, 43_200, 43_200];
const TIMEOUT_MS = 10_000;

const { webhooks: SIGNER } = new Stripe("sk_test_unused");

export type Webhooks = ReturnType<typeof createWebhooks>;

/** Delivers events to webhook endpoints in order, and retries until an endpoint answers 2xx. */
export function createWebhooks({ state, clock }: Pick<World, "state" | "clock">, changed: () => void) {
  const { deliveries, events, webhookEndpoints } = state;
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

  const nextDue = () => deliveries.values().find(({ due }) => due <= clock.now());

  async function sendAll(): Promise<void> {
    for (let next = nextDue(); next && !stopping.signal.aborted; next = nextDue()) {
      const delivery = next;
      const outcome = await send(delivery).catch(() => "failed" as const);
      if (stopping.signal.aborted) return;
      if (outcome === "done") deliveries.delete(delivery.id);
      else retryLater(delivery);
    }
    // A crash before this sends the same events again.
    changed();
  }

  function retryLater(delivery: Delivery): void {
    const wait = BACKOFF[delivery.attempts];
    delivery.attempts++;
    // Moves to the end of the queue, so that others are not held up.
    deliveries.delete(delivery.id);
    if (wait !== undefined) deliveries.set(delivery.id, { ...delivery, due: clock.now() + wait });
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

  /** Sends the deliveries that are due. */
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
    /** Sets some switches. */
    set: (change: Partial<Switches>): void => {
      Object.assign(switches, change);
    },
    switches: (): Switches => ({ ...switches }),
    /** Returns the deliveries without a 2xx response so far. */
    pending: (): Delivery[] => [...deliveries.values()].map((delivery) => ({ ...delivery })),
    /** Attempts all pending deliveries now, including those held by `reorder`. Resolves when each was attempted. */
    async flush(): Promise<void> {
      for (const late of held.reverse()) deliveries.set(late.id, late);
      held = [];
      switches.reorder = 0;
      await sending;
      for (const delivery of deliveries.values()) delivery.due = Math.min(delivery.due, clock.now());
      await pump();
    },
    stop: async () => {
      stopping.abort();
      await sending;
    },
  };
}
