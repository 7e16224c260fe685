import { expect, test } from "vitest";
import type { Environments } from "../../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../../options.ts";
import { manifestsOf, ownLabels } from "../../release/manifests.ts";
import { readState, withAnnotations } from "../../release/release-annotations.ts";
import type { Cache } from "../informer-cache.ts";
import { at, options, release } from "../testing.ts";
import { createDriftMonitor } from "./drift-monitor.ts";

test("a namespace is looked at a second time only for drift that is new, not for what the cluster alters", async () => {
  const manifests = manifestsOf(release, options);
  const applied = { release, manifests, appliedAt: at(0), usage: [] };
  const metadata = { name: "web", namespace: "env", labels: ownLabels(release) };
  const deployment = withAnnotations({ metadata }, applied);
  const seen = { deployment, recorded: readState(deployment)!, pods: [] };
  let looks = 0;
  const kube = {
    list: async ({ kind }: { kind: string }) => {
      if (kind === "Service") looks++;
      return { items: [] };
    },
    listMetadata: async () => [],
  };
  const given = { ...options, kube, watch: "namespaces", log: { info() {}, warn() {} } };
  const changed: string[] = [];
  const monitor = createDriftMonitor(
    given as unknown as KubernetesRuntimeOptions,
    { namespaces: () => ["env"] } as Environments,
    { listIn: () => [seen] } as Partial<Cache> as Cache,
    (serviceId) => changed.push(serviceId),
  );
  const looksOf = async () => {
    const before = looks;
    await monitor.compare(new AbortController().signal);
    return looks - before;
  };
  // Its Service is not there.
  expect(await looksOf()).toBe(2);
  expect([changed, monitor.has(release.serviceId)]).toEqual([[release.serviceId], true]);
  expect(await looksOf()).toBe(1);
  expect([changed.length, monitor.has(release.serviceId)]).toEqual([1, true]);

  monitor.applied({ ...deployment, spec: { ...deployment.spec!, paused: true, replicas: 7 } });
  expect(monitor.has(release.serviceId)).toBe(false);
  expect(await looksOf()).toBe(1);
  expect(monitor.has(release.serviceId)).toBe(false);
});
