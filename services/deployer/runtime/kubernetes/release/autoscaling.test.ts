import type { V1Deployment, V2HorizontalPodAutoscaler } from "@kubernetes/client-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube, type Kube } from "../../../kube/client.ts";
import { Deployment, HorizontalPodAutoscaler } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "../runtime.ts";

const NAMESPACE = "many-env-1";
const autoscaling = { min: 2, max: 5, targetCpuPercent: 70 };
const app = { ...release, replicas: 1, autoscaling, env: {} };

let api: KubeApi;
let kube: Kube;
let runtime: KubernetesRuntime;

beforeEach(async () => {
  api = await startKubeApi();
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  const log = { info() {}, warn() {}, error: console.error };
  kube = connectKube(api.config);
  const options = { ...manyOptions({ kube, log }), compareMs: 100 };
  runtime = createKubernetesRuntime(options, createEnvironments(options));
  await runtime.start();
});

afterEach(async () => {
  await runtime.stop();
  await api.stop();
});

const replicas = async () => (await kube.get<V1Deployment>(Deployment, "web", NAMESPACE))?.spec?.replicas;
const autoscaler = () => kube.get<V2HorizontalPodAutoscaler>(HorizontalPodAutoscaler, "web", NAMESPACE);
/** What the cluster's autoscaler does. */
function decide(count: number) {
  const deployment = { metadata: { name: "web", namespace: NAMESPACE }, spec: { replicas: count } };
  return kube.merge(Deployment, deployment);
}

test("a release begins with the fewest replicas, and what the autoscaler decides stays when it is applied again", async () => {
  await runtime.apply(app);
  expect([await replicas(), (await autoscaler())?.spec]).toMatchObject([
    2,
    { minReplicas: 2, maxReplicas: 5 },
  ]);
  expect((await autoscaler())?.metadata?.ownerReferences).toMatchObject([
    { kind: "Deployment", name: "web" },
  ]);
  await decide(4);
  await runtime.apply({ ...app, revision: 6 });
  expect(await replicas()).toBe(4);
  await runtime.apply({ ...app, version: 3, revision: 7 });
  expect(await replicas()).toBe(4);
  const status = await runtime.status("svc_1");
  expect(status).toMatchObject({ version: 3, scale: { replicas: 4, size: "nano", autoscaling } });
});

test("what the autoscaler decides is no drift, and an autoscaler that somebody removed is", async () => {
  await runtime.apply(app);
  await decide(3);
  await eventually("it is seen", async () => (await runtime.status("svc_1"))?.scale?.replicas === 3);
  const compared = () => api.calls.filter(({ plural }) => plural === "horizontalpodautoscalers").length;
  const before = compared();
  await eventually("it was compared twice", async () => compared() >= before + 2);
  expect((await runtime.status("svc_1"))?.drifted).toBeUndefined();
  await kube.remove(HorizontalPodAutoscaler, "web", NAMESPACE);
  await eventually("it has drifted", async () => (await runtime.status("svc_1"))?.drifted);
  await runtime.apply(app);
  expect([await replicas(), await autoscaler()]).toMatchObject([3, { spec: { maxReplicas: 5 } }]);
});

test("a running release is scaled by its CPU, and back to a fixed number: its pods stay the same", async () => {
  const { autoscaling: _, ...fixed } = app;
  await runtime.apply(fixed);
  const template = async () => (await kube.get<V1Deployment>(Deployment, "web", NAMESPACE))?.spec?.template;
  const pods = await template();
  await runtime.scale("svc_1", 2, { replicas: 1, size: "nano", autoscaling });
  expect([await replicas(), await autoscaler()]).toMatchObject([2, { spec: { maxReplicas: 5 } }]);
  await decide(5);
  await runtime.scale("svc_1", 2, { replicas: 1, size: "nano", autoscaling: { ...autoscaling, max: 3 } });
  expect([await replicas(), await autoscaler()]).toMatchObject([3, { spec: { maxReplicas: 3 } }]);
  expect(await template()).toEqual(pods);
  await runtime.scale("svc_1", 2, { replicas: 1, size: "nano" });
  expect([await replicas(), await autoscaler(), await template()]).toEqual([1, undefined, pods]);
  expect((await runtime.status("svc_1"))?.scale).toEqual({ replicas: 1, size: "nano" });
});

test("a stop removes the autoscaler first, also when the deployer dies in between", async () => {
  await runtime.apply(app);
  api.beforeEach(({ verb, plural }) => {
    if (verb === "apply" && plural === "deployments") throw new Error("died");
  });
  const stopped = { replicas: 0, size: "nano" as const };
  await expect(runtime.scale("svc_1", 2, stopped)).rejects.toThrow();
  expect([await replicas(), await autoscaler()]).toEqual([2, undefined]);
  api.beforeEach(() => {});
  await runtime.scale("svc_1", 2, stopped);
  expect([await replicas(), await autoscaler()]).toEqual([0, undefined]);
});
