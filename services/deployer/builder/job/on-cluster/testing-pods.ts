import { setTimeout as delay } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";

export const PORT = 8080;

/** Returns a pod that runs an image as the runtime runs releases. */
export function podOf(namespace: string, name: string, image: string, given: Record<string, string>) {
  const env = Object.entries({ ...given, PORT: String(PORT) }).map(([key, value]) => ({ name: key, value }));
  const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
  return {
    metadata: { name, namespace, labels: { ask: "yes" } },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      restartPolicy: "Never",
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      containers: [{ name: "app", image, env, securityContext }],
    },
  };
}

export async function addressOf(read: () => Promise<V1Pod | undefined>): Promise<string> {
  for (;;) {
    const pod = await read();
    const state = pod?.status?.containerStatuses?.[0]?.state;
    if (state?.running && pod?.status?.podIP) return pod.status.podIP;
    if (state?.terminated) throw new Error(`the app ended: ${JSON.stringify(state.terminated)}`);
    if (/Err|BackOff/.test(state?.waiting?.reason ?? "")) throw new Error(JSON.stringify(state));
    await delay(100);
  }
}

export async function get(url: string): Promise<{ status: number; body: string }> {
  for (const until = Date.now() + 20_000; ; ) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(5_000) });
      return { status: response.status, body: await response.text() };
    } catch (error) {
      if (Date.now() > until) throw error;
      await delay(100);
    }
  }
}
