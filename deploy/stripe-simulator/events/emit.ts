import Stripe from "stripe";
import { toJson } from "../http/json.ts";
import { newId } from "../state/ids.ts";
import type { Delivery } from "../state/state.ts";
import type { World } from "../state/world.ts";

/** How long Stripe lists events. */
const KEPT_SECONDS = 30 * 24 * 60 * 60;

/** Returns the function that records an event and calls `schedule` with each delivery of it. */
export function createEmit(
  { state, clock }: Pick<World, "state" | "clock">,
  schedule: (delivery: Delivery) => void,
): World["emit"] {
  return (type, object, previous) => {
    const created = clock.now();
    const endpoints = [...state.webhookEndpoints.values()].filter(
      ({ status, enabled_events }) =>
        status === "enabled" && (enabled_events.includes("*") || enabled_events.includes(type)),
    );
    const event = {
      id: newId("evt"),
      object: "event",
      api_version: Stripe.API_VERSION,
      created,
      data: {
        object: toJson(object) as never,
        ...(previous && { previous_attributes: previous as never }),
      },
      livemode: false,
      pending_webhooks: endpoints.length,
      request: { id: null, idempotency_key: null },
      type,
    } satisfies Stripe.EventBase;
    state.events.set(event.id, event);
    for (const endpoint of endpoints)
      schedule({ id: newId("dlv"), event: event.id, endpoint: endpoint.id, attempts: 0, due: created });
    for (const [id, old] of state.events) {
      if (old.created + KEPT_SECONDS > created) break;
      state.events.delete(id);
    }
  };
}
