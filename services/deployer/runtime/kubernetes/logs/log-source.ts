import type { KubernetesObject } from "@kubernetes/client-node";
import type { Kind } from "../../../kube/client.ts";
import { Deployment } from "../../../kube/kinds.ts";
import { namespaceOf } from "../../../kube/names.ts";
import type { LogQuery } from "../../port.ts";
import { CONTAINER, selectorOf } from "../app-pods.ts";

/** Where the lines of a service are written, and how they are shown. */
export type LogSource = {
  serviceId: string;
  namespace: string;
  /** The object that exists as long as the service, by its labels. */
  owner: { kind: Kind<KubernetesObject>; labels: Record<string, string> };
  /** The labels of its pods. */
  pods: Record<string, string>;
  /** Pods without this container write nothing of the service. */
  container: string;
  /** Whether each pod is of a version; otherwise lines have version 0. */
  versioned: boolean;
  /** Only lines that contain `part` are shown, as what `show` makes of each. */
  format?: { part: string; show: (raw: string) => string[] };
};

/** Returns where an app writes its lines. */
export function appSource(
  namespacePrefix: string,
  { serviceId, environmentId }: Pick<LogQuery, "serviceId" | "environmentId">,
): LogSource {
  const labels = selectorOf(serviceId);
  return {
    ...{ serviceId, namespace: namespaceOf(namespacePrefix, environmentId) },
    ...{ owner: { kind: Deployment, labels }, pods: labels, container: CONTAINER, versioned: true },
  };
}
