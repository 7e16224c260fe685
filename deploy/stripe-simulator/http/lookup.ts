import type Stripe from "stripe";
import { invalid, missing } from "./errors.ts";

/** Returns a row. Throws resource_missing: 404 for an id in the path, 400 for one in a parameter. */
export function need<T>(table: Map<string, T>, what: string, id: string, param?: string): T {
  const row = table.get(id);
  if (!row) throw missing(what, id, param);
  return row;
}

/** Returns a customer that is not deleted. Throws as `need`, and parameter_missing. */
export function needCustomer(
  { customers }: { customers: Map<string, Stripe.Customer> },
  id: string | undefined,
  param = "customer",
) {
  if (id === undefined) throw invalid(`Missing required param: ${param}.`, param, "parameter_missing");
  return need(customers, "customer", id, param);
}
