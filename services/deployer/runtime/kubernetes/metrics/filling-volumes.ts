import { namespaceOf } from "../../../kube/names.ts";
import type { FillingVolume } from "../../../terms/measurement.ts";

type Vector = { metric: Record<string, string>; value: [number, string] }[];

const USED = "kubelet_volume_stats_used_bytes";
const CAPACITY = "kubelet_volume_stats_capacity_bytes";
/** An answer about so many has less than a quarter of the most that is taken. */
const MOST = 1_000;

/**
 * Returns the query of what the volumes of addons, of which at least this share is used, have and use in all environments;
 * pure. One answer has both, so that they are of the same moment.
 */
export function fillingQuery(namespacePrefix: string, share: number): string {
  const namespaces = `${namespaceOf(namespacePrefix, "env_")}[0-9a-z]+`;
  const volumes = `namespace=~"${namespaces}",persistentvolumeclaim=~"(data-)?svc-[0-9a-z]+-[0-9]+"`;
  const by = "(namespace, persistentvolumeclaim)";
  const filling = `max by ${by} (${USED}{${volumes}} / ${CAPACITY}{${volumes}}) >= ${share}`;
  return `{__name__=~"${USED}|${CAPACITY}",${volumes}} and on ${by} topk(${MOST}, ${filling})`;
}

/** Returns the fullest volume of each addon, the fullest first, from the answer; pure. */
export function toFilling(vector: Vector): FillingVolume[] {
  const volumes = new Map<string, FillingVolume>();
  for (const { metric, value } of vector) {
    const { __name__: name, persistentvolumeclaim: claim = "" } = metric;
    const [, id] = /^(?:data-)?svc-([0-9a-z]+)-[0-9]+$/.exec(claim) ?? [];
    if (id === undefined) continue;
    const volume = volumes.get(claim) ?? { serviceId: `svc_${id}`, usedBytes: 0, capacityBytes: 0 };
    volume[name === USED ? "usedBytes" : "capacityBytes"] = Number(value[1]);
    volumes.set(claim, volume);
  }
  const shareOf = ({ usedBytes, capacityBytes }: FillingVolume) => usedBytes / capacityBytes;
  const fullest = [...volumes.values()]
    .filter((one) => Number.isFinite(shareOf(one)))
    .sort((one, other) => shareOf(other) - shareOf(one));
  return [...Map.groupBy(fullest, ({ serviceId }) => serviceId).values()].map(([first]) => first!);
}
