import type Stripe from "stripe";
import type { Clock } from "./clock.ts";
import type { State } from "./state.ts";

/** The state and services that all endpoints share. */
export type World = {
  state: State;
  clock: Clock;
  /** Base URL of the simulator, such as `http://127.0.0.1:4000`. */
  url: string;
  /** Records an event and sends it to the webhook endpoints that subscribe to its type. */
  emit: (type: Stripe.Event.Type, object: object, previous?: object) => void;
};

/** Returns the id of a reference. In the state references are never expanded. */
export function idOf(reference: string | { id: string }): string {
  return typeof reference === "string" ? reference : reference.id;
}
