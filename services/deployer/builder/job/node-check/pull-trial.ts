import { setTimeout as delay } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import { readConfig, text } from "../../../../kit/process/config.ts";
import { connectKube, type Kube } from "../../../kube/client.ts";
import { Pod } from "../../../kube/kinds.ts";

/** Shorter than helm waits for a test. */
const PATIENCE_MS = 120_000;
const POLL_MS = 1_000;

export type PullTrial = {
  /** The name under which nodes pull from the bundled registry, such as localhost:30500. */
  host: string;
  /** Where a pod with an image of it is, and which labels it has: one that does not exist, without a login. */
  namespace: string;
  labels: string;
};

/**
 * Waits until a node has tried to pull the image, and returns without an error if the registry refused it: then the node
 * reaches the registry. Throws an error that says what the nodes lack otherwise.
 */
export async function tryPull(kube: Kube, trial: PullTrial, patienceMs = PATIENCE_MS): Promise<void> {
  const { namespace, labels, host } = trial;
  for (const until = Date.now() + patienceMs; ; await delay(POLL_MS)) {
    const [pod] = (await kube.list<V1Pod>(Pod, { namespace, labels })).items;
    const outcome = explainPull(pod, host);
    if (outcome === "reached") return;
    if (outcome !== undefined) throw new Error(outcome);
    if (Date.now() > until) throw new Error(explainDelay(pod, namespace));
  }
}

/**
 * Returns "reached" if a node has asked the registry, a sentence if it could not, and undefined if it has not tried
 * yet; pure.
 */
export function explainPull(pod: V1Pod | undefined, host: string): string | undefined {
  const waiting = pod?.status?.containerStatuses?.[0]?.state?.waiting;
  const message = waiting?.message ?? "";
  const node = `The node ${pod?.spec?.nodeName}`;
  const otherwise = "or use your own registry (registry.bundled: false)";
  if (/HTTP response to HTTPS client|x509|tls: /.test(message))
    return `${node} expects TLS from the bundled registry at ${host}: let its container runtime use plain HTTP there, ${otherwise}.`;
  if (/connection refused|timeout|deadline exceeded|no route to host|no such host/.test(message)) {
    const local = /^(localhost|127\.)/.test(host);
    const why = local
      ? "kube-proxy in nftables or IPVS mode, and some networks that replace it, do not serve NodePorts on localhost. Set kube-proxy's mode to iptables, set registry.pull to an address that nodes reach"
      : "correct registry.pull";
    return `${node} does not reach the bundled registry at ${host}: ${why}, ${otherwise}.`;
  }
  if (/authori[sz]|authentic|denied|not found|\b40[134]\b/i.test(message)) return "reached";
  return undefined;
}

function explainDelay(pod: V1Pod | undefined, namespace: string): string {
  const { reason, message } = pod?.status?.containerStatuses?.[0]?.state?.waiting ?? {};
  const state = message ?? reason ?? pod?.status?.phase ?? "no pod was created";
  return `No node has tried to pull an image (${state}): \`kubectl get events -n ${namespace}\` says why.`;
}

if (import.meta.main) {
  const config = readConfig(process.env, {
    host: text("PULL_HOST"),
    namespace: text("NAMESPACE"),
    labels: text("POD_LABELS"),
  });
  try {
    await tryPull(connectKube(), config);
    process.stdout.write(`Nodes reach the bundled registry at ${config.host}.\n`);
  } catch (error) {
    process.stdout.write(`${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}
