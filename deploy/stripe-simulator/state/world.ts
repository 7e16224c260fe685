import type Stripe from "stripe";
import { invalid, missing } from "../http/errors.ts";
import type { Clock } from "./clock.ts";
import type { State } from "./state.ts";

/** What the endpoints work on. */
export type World = {
  state: State;
  clock: Clock;
  /** Where the simulator is reached, such as `http://127.0.0.1:4000`. */
  url: string;
  /** Records an event and sends it to the webhook endpoints that want it. */
  emit: (type: Stripe.Event.Type, object: object, previous?: object) => void;
};

/** Returns a row, or throws resource_missing: 404 for the id of a path, 400 for that of a parameter. */
export function need<T>(table: Map<string, T>, what: string, id: string, param?: string): T {
  const row = table.get(id);
  if (!row) throw missing(what, id, param);
  return row;
}

/** Returns a customer that is not deleted. */
export function needCustomer(state: State, id: string | undefined, param = "customer") {
  if (id === undefined) throw invalid(`Missing required param: ${param}.`, param, "parameter_missing");
  return need(state.customers, "customer", id, param);
}

/** Returns the id of a reference that is never expanded in the state. */
export function idOf(reference: string | { id: string }): string {
  return typeof reference === "string" ? reference : reference.id;
}
