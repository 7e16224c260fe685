import { LRUCache } from "lru-cache";
import type { Kube } from "../../../kube/client.ts";
import { Secret } from "../../../kube/kinds.ts";
import { readPodLog } from "../../../kube/pod-log.ts";
import { maskSecrets } from "../../../shared/mask-secrets.ts";
import { CONTAINER, secretName } from "../release/manifests.ts";
import type { PodFacts } from "./pod-facts.ts";
import type { Observation } from "./status.ts";

const LINES = 10;
const LINE_LENGTH = 500;
/** More than there are replicas that crash at once. */
const KEPT = 1_000;

/** What crashed replicas said last, values of sensitive variables masked; each crash is asked about once. */
export function createCrashOutput(kube: Kube) {
  const known = new LRUCache<string, Promise<string>>({ max: KEPT });

  async function ask({ deployment, recorded }: Observation, pod: PodFacts): Promise<string> {
    const namespace = deployment.metadata?.namespace ?? "";
    const query = { container: CONTAINER, previous: !pod.ended, tailLines: LINES };
    const lines: string[] = [];
    for await (const line of readPodLog(kube, { namespace, name: pod.name }, query))
      lines.push(line.slice(line.indexOf(" ") + 1).slice(0, LINE_LENGTH));
    if (lines.length === 0) return "It wrote nothing.";
    const { sensitive = [] } = recorded.release;
    const secret =
      sensitive.length > 0 ? await kube.get(Secret, secretName(recorded.release), namespace) : undefined;
    const values = sensitive.map((name) => Buffer.from(secret?.data?.[name] ?? "", "base64").toString());
    // Rather nothing than a secret that cannot be recognised.
    if (sensitive.length > 0 && !secret) return "";
    return `Its last lines:\n${maskSecrets(values)(lines.join("\n"))}`;
  }

  return (seen: Observation, pod: PodFacts): Promise<string> => {
    const key = `${pod.uid} ${pod.lastEnd?.finishedAt}`;
    const asked = known.get(key);
    if (asked) return asked;
    const answer = ask(seen, pod).catch(() => {
      // The container was just replaced, or its log is gone: it is asked again with the next look.
      known.delete(key);
      return "";
    });
    known.set(key, answer);
    return answer;
  };
}
