import type { Level, Resource } from "./level.ts";
import { type Measure, type Part, usedPercent } from "./measure.ts";

const GIB = 1024 ** 3;

/** Returns "12.3 GiB", or "210 MiB". */
export function sizeText(bytes: number): string {
  return bytes < GIB ? `${Math.round(bytes / 1024 ** 2)} MiB` : `${(bytes / GIB).toFixed(1)} GiB`;
}

const leftText = ({ total, left }: Measure) => `${sizeText(left)} of ${sizeText(total)}`;

type Change = { node: string; resource: Resource; to: Level; measure: Measure };
/** What is known of a disk; on a cluster, its node has other commands. */
type About = { folders: string[]; parts: Part[]; onCluster: boolean };

/** Returns the title and the body of the notice about a change. */
export function noticeText({ node, resource, to, measure }: Change, about: About) {
  const left = leftText(measure);
  if (to === "ok")
    return {
      title: `The ${resource} of ${node} is sufficient again`,
      body: `${left} ${resource === "disk" ? "are left" : "are available"}.`,
    };
  if (resource === "memory")
    return {
      title: `The memory of ${node} is running short`,
      body: `For three minutes, little memory was available: now ${left}. When none is left, the kernel ends processes, such as apps or a database. Give services a smaller size or fewer replicas, or the node more memory. This shows what uses it: ${about.onCluster ? "kubectl top pods -A --sort-by=memory" : "ps -eo rss,args --sort=-rss | head"}`,
    };
  const percent = Math.floor(usedPercent(measure));
  return {
    title: `The disk of ${node} is ${percent} % full`,
    body: `${to === "urgent" ? "Make room now. " : ""}${left} are left.${partsText(about.parts)} When nothing is left, changes are refused, and builds and backups fail. ${about.onCluster ? "Delete what is not needed, or enlarge the disk. On a server that berth-server installed, this shows what uses it: sudo berth-server doctor" : `Delete services and backups that are not needed, or enlarge the disk. This shows what uses it: du -xh -d 2 ${about.folders.join(" ")} | sort -h | tail`}`,
  };
}

function partsText(parts: Part[]): string {
  if (parts.length === 0) return "";
  return ` Most is used by ${parts.map(({ path, bytes }) => `${path} (${sizeText(bytes)})`).join(", ")}.`;
}
