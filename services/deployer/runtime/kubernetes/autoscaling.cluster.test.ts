import { afterAll, beforeAll, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { Deployment, HorizontalPodAutoscaler } from "../../kube/kinds.ts";
import { namespaceOf } from "../../kube/names.ts";
import { type Cluster, openCluster } from "./testing.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await openCluster("scaled");
});
afterAll(() => cluster?.close());

test("the cluster scales a release between its bounds, the deployer leaves that alone, and a fixed number returns", async () => {
  const { kube, runtime } = cluster;
  const autoscaling = { min: 2, max: 3, targetCpuPercent: 80 };
  const one = releaseOf(cluster.artifact, answeringApp, { autoscaling });
  const namespace = namespaceOf(cluster.options.namespacePrefix, one.environmentId);
  const name = one.names.service;
  const runs = (replicas: number) =>
    statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.usage?.at(-1)?.replicas === replicas);
  await runtime.apply(one);
  await runs(2);
  const { status, spec } = (await kube.get(HorizontalPodAutoscaler, name, namespace))!;
  expect([spec?.minReplicas, spec?.maxReplicas, status]).toEqual([2, 3, expect.anything()]);

  // As the autoscaler does it; above the bounds it corrects the number itself, whether or not it knows the CPU.
  const decided = { metadata: { name, namespace }, spec: { replicas: 5 } };
  await kube.merge(Deployment, decided);
  expect((await runs(3)).scale).toEqual({ replicas: 3, size: "nano", autoscaling });
  await runtime.apply({ ...one, revision: 2 });
  const again = await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.revision === 2);
  expect([again.scale?.replicas, again.drifted]).toEqual([3, undefined]);
  const measured = await runtime.measure!();
  expect(measured.find(({ serviceId }) => serviceId === one.serviceId)?.replicas).toBe(3);

  await kube.remove(HorizontalPodAutoscaler, name, namespace);
  await statusOf(runtime, one.serviceId, (now) => now.drifted === true);
  await runtime.apply({ ...one, revision: 2 });
  await eventually("it has its autoscaler again", () => kube.get(HorizontalPodAutoscaler, name, namespace));

  await runtime.scale(one.serviceId, 1, { replicas: 1, size: "nano" });
  expect((await runs(1)).scale).toEqual({ replicas: 1, size: "nano" });
  expect(await kube.get(HorizontalPodAutoscaler, name, namespace)).toBeUndefined();
});
