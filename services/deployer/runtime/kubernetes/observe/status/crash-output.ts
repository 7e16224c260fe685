import { LRUCache } from "lru-cache";
import { isStatus, type Kube } from "../../../../kube/client.ts";
import { Secret } from "../../../../kube/kinds.ts";
import { readPodLog } from "../../../../kube/pods/pod-log.ts";
import { READ_LINES } from "../../../crash-excerpt.ts";
import { quoteOutput } from "../../../status-messages.ts";
import { CONTAINER } from "../../app-pods.ts";
import { secretName } from "../../release/manifests.ts";
import type { PodFacts } from "./pod-facts.ts";
import type { Observation } from "./status.ts";

/** More than there are replicas that crash at once. */
const MAX_CRASHES = 1_000;

/** Returns the last output of crashed replicas, values of sensitive variables masked; reads it once for each crash. */
export function createCrashOutput(kube: Kube) {
  const outputs = new LRUCache<string, Promise<string>>({ max: MAX_CRASHES });

  async function read({ deployment, recorded }: Observation, pod: PodFacts): Promise<string> {
    const namespace = deployment.metadata?.namespace ?? "";
    const lines = await readLines(kube, namespace, pod);
    const { sensitive = [] } = recorded.release;
    if (sensitive.length === 0 || lines.length === 0) return quoteOutput(lines, []);
    const secret = await kube.get(Secret, secretName(recorded.release), namespace);
    // Nothing at all is better than a value that cannot be recognised.
    if (!secret) return "";
    const values = sensitive.map((name) => Buffer.from(secret.data?.[name] ?? "", "base64").toString());
    return quoteOutput(lines, values);
  }

  return (seen: Observation, pod: PodFacts): Promise<string> => {
    const key = `${pod.uid} ${pod.lastEnd?.finishedAt}`;
    const cached = outputs.get(key);
    if (cached) return cached;
    const output = read(seen, pod).catch(() => {
      // The container was just replaced, or its log is gone: the next status tries again.
      outputs.delete(key);
      return "";
    });
    outputs.set(key, output);
    return output;
  };
}

/** Returns the last lines that the container wrote which ended last. */
async function readLines(kube: Kube, namespace: string, pod: PodFacts): Promise<string[]> {
  const of = async (previous: boolean): Promise<string[]> => {
    const query = { container: CONTAINER, previous, tailLines: READ_LINES };
    const lines: string[] = [];
    for await (const line of readPodLog(kube, { namespace, name: pod.name }, query)) {
      const space = line.indexOf(" ");
      if (wroteThen(line.slice(0, space), pod.lastEnd)) lines.push(line.slice(space + 1));
    }
    return lines;
  };
  if (!pod.ended) return of(true);
  const lines = await of(false);
  // Since its end was seen, it may have been restarted: then the log is that of the one that runs now.
  return lines.length > 0
    ? lines
    : of(true).catch((error) => (isStatus(error, 400) ? [] : Promise.reject(error)));
}

/** Whether a line was written by the container that ended so. Its times are precise to the second, its start is late. */
function wroteThen(at: string, end: PodFacts["lastEnd"]): boolean {
  const ms = Date.parse(at);
  return !end || Number.isNaN(ms) || (ms >= end.startedAt - 1_000 && ms < end.finishedAt + 1_000);
}
