import { PostgresCluster, StatefulSet } from "../../kube/kinds.ts";
import { label, namespaceOf } from "../../kube/names.ts";
import type { LogSource } from "../../runtime/kubernetes/logs/log-source.ts";
import type { AddonLogQuery } from "../port.ts";
import { serverLines } from "./cnpg/server-lines.ts";

/** Returns where the servers of an addon write their lines. Their containers have the name of the type. */
export function addonSource(
  namespacePrefix: string,
  { serviceId, environmentId, addon: { type, engine } }: AddonLogQuery,
): LogSource {
  const isCnpg = engine === "cnpg";
  const labelsOf = (kind: string) => ({ [label("serviceId")]: serviceId, [label("kind")]: kind });
  return {
    ...{ serviceId, namespace: namespaceOf(namespacePrefix, environmentId) },
    owner: { kind: isCnpg ? PostgresCluster : StatefulSet, labels: labelsOf("addon") },
    pods: labelsOf(isCnpg ? "instance" : "addon"),
    ...{ container: type, versioned: false },
    ...(isCnpg && { format: serverLines }),
  };
}
