import type { V1PodDisruptionBudget } from "@kubernetes/client-node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { connectKube, type Kube } from "../../../kube/client.ts";
import { PodDisruptionBudget } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "../runtime.ts";

const app = { ...release, replicas: 1, env: {} };

let api: KubeApi;
let kube: Kube;
let runtime: KubernetesRuntime;

beforeEach(async () => {
  api = await startKubeApi();
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  kube = connectKube(api.config);
  const options = manyOptions({ kube, log: { info() {}, warn() {}, error: console.error } });
  runtime = createKubernetesRuntime(options, createEnvironments(options));
  await runtime.start();
});

afterEach(async () => {
  await runtime.stop();
  await api.stop();
});

const budget = () => kube.get<V1PodDisruptionBudget>(PodDisruptionBudget, "web", "many-env-1");

test("a drain ends a quarter of an app's replicas at once, and one replica is never in its way", async () => {
  await runtime.apply(app);
  expect(await budget()).toBeUndefined();
  await runtime.scale(app.serviceId, app.version, { replicas: 3, size: "nano" });
  const { metadata, spec } = (await budget())!;
  expect(spec).toEqual({
    maxUnavailable: "25%",
    unhealthyPodEvictionPolicy: "AlwaysAllow",
    selector: { matchLabels: { "berth.dev/service": app.serviceId, "berth.dev/kind": "app" } },
  });
  expect(metadata!.ownerReferences).toMatchObject([{ kind: "Deployment", name: "web" }]);
  await runtime.scale(app.serviceId, app.version, { replicas: 1, size: "nano" });
  expect(await budget()).toBeUndefined();
});

test("an app that may be scaled to several replicas has it, also before it is", async () => {
  const autoscaling = { min: 1, max: 4, targetCpuPercent: 70 };
  await runtime.apply({ ...app, autoscaling });
  expect((await budget())?.spec?.maxUnavailable).toBe("25%");
  await runtime.apply({ ...app, version: app.version + 1, revision: 7 });
  expect(await budget()).toBeUndefined();
});
