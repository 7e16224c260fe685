import { label } from "../../kube/names.ts";

/** The one container of an app's pod. */
export const CONTAINER = "app";

/** Returns labels that select a service's objects, whichever the release. */
export function selectorOf(serviceId: string): Record<string, string> {
  return { [label("service")]: serviceId, [label("kind")]: "app" };
}
