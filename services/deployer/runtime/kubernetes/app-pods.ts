import { label } from "../../kube/names.ts";

/** The one container of an app's pod. */
export const CONTAINER = "app";

/** Marks the pods of a service that only its environment reaches. */
export const PRIVATE = { key: label("access"), value: "private" };

/** Marks the pods that may be scraped. */
export const SCRAPED = { [label("metrics")]: "scraped" };

/** Returns labels that select a service's objects, whichever the release. */
export function selectorOf(serviceId: string): Record<string, string> {
  return { [label("service")]: serviceId, [label("kind")]: "app" };
}
