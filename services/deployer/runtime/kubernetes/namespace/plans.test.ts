import type { V1NetworkPolicy, V1ResourceQuota } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, NetworkPolicy, ResourceQuota } from "../../../kube/kinds.ts";
import type { EnvironmentPlan } from "../../../terms/environment-plan.ts";
import { manyOptions } from "../many/testing.ts";
import { release } from "../observe/testing.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { createKubernetesRuntime } from "../runtime.ts";
import { createEnvironments } from "./namespaces.ts";

// The limits of an account's plan on its environments.

const NAMESPACE = "many-env-1";
const app = { ...release, env: {} };
/** With 2 s to drain and 30 s to end, a pod may end beside four others. */
const FREE: EnvironmentPlan = {
  most: { pods: 4, cpu: 1_000, memory: 1_024, storage: 2_048 },
  volumes: 2,
  openPorts: [],
};
const NONE: EnvironmentPlan = { openPorts: [] };

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** A deployer on this cluster, for an account of this plan; `plan` may be changed. */
async function deployer(api: KubeApi, given: EnvironmentPlan, more: Partial<KubernetesRuntimeOptions> = {}) {
  const own = { plan: given };
  const log = { info() {}, warn() {}, error: console.error };
  const common = manyOptions({ kube: connectKube(api.config), log });
  const network = { ...common.network, closedPorts: [25, 587] };
  const apps = { ...common.apps, drainSeconds: 2, graceSeconds: 30 };
  const plansOf = async (ids: string[]) => new Map(ids.map((id) => [id, own.plan]));
  const options = { ...common, network, apps, plansOf, ...more };
  const environments = createEnvironments(options);
  const runtime = createKubernetesRuntime(options, environments);
  stops.push(runtime.stop);
  await runtime.start();
  return { own, runtime, environments };
}

async function cluster() {
  const api = await startKubeApi();
  stops.push(api.stop);
  api.store.put(Namespace, { metadata: { name: "many-home" } });
  const find = <T>({ apiVersion, plural }: { apiVersion: string; plural: string }, name: string) =>
    api.store.find({ apiVersion, plural, namespace: NAMESPACE }, name) as T | undefined;
  return {
    api,
    quota: () => find<V1ResourceQuota>(ResourceQuota, "berth")?.spec?.hard,
    /** Which of the closed ports are open. */
    open: () =>
      [25, 587].filter((port) =>
        find<V1NetworkPolicy>(NetworkPolicy, "out")?.spec?.egress?.some(({ ports }) =>
          ports?.some(
            (one) => one.protocol === "TCP" && Number(one.port) <= port && port <= Number(one.endPort),
          ),
        ),
      ),
  };
}

test("a namespace has room for what the plan allows while it rolls over, and for no more", async () => {
  const { api, quota } = await cluster();
  const { runtime } = await deployer(api, FREE);
  await runtime.apply(app);
  expect(quota()).toEqual({
    pods: "28",
    "limits.cpu": "7000m",
    "limits.memory": "7168Mi",
    "limits.ephemeral-storage": "14336Mi",
    persistentvolumeclaims: "14",
  });
});

test("what the installation limits itself holds instead, and of pods and local disk the smaller number", async () => {
  const { api, quota } = await cluster();
  const own = { pods: "10", "limits.memory": "1Gi", "requests.storage": "5Gi" };
  const { runtime } = await deployer(api, FREE, { quota: own });
  await runtime.apply(app);
  const planned = { "limits.cpu": "7000m", persistentvolumeclaims: "14" };
  const disk = "limits.ephemeral-storage";
  expect(quota()).toEqual({ ...own, ...planned, [disk]: "14336Mi" });
  for (const [given, wanted] of [
    ["5G", "5G"],
    ["400Gi", "14336Mi"],
  ]) {
    const another = await deployer(api, FREE, { quota: { ...own, [disk]: given! } });
    await another.environments.reapply();
    expect(quota()).toEqual({ ...own, ...planned, [disk]: wanted });
  }
});

test("a larger plan is there before what it allows, be it a release or more replicas; a smaller one follows", async () => {
  const { api, quota, open } = await cluster();
  const { own, runtime, environments } = await deployer(api, FREE);
  await runtime.apply(app);
  expect(open()).toEqual([]);
  const quotaAt = new Map<string, unknown>();
  api.beforeEach(({ verb, plural }) => {
    if (plural === "deployments" && verb !== "watch") quotaAt.set("deployments", quota());
  });
  own.plan = { openPorts: [587] };
  await runtime.learnPlan?.(app.environmentId);
  await runtime.scale(app.serviceId, app.version, { replicas: 20, size: "large" });
  expect(quotaAt.get("deployments")).toEqual({ pods: "50" });
  expect(open()).toEqual([587]);

  own.plan = FREE;
  await environments.reapply();
  expect(quota()).toMatchObject({ pods: "28" });
  expect(open()).toEqual([]);
  own.plan = { openPorts: [] };
  quotaAt.clear();
  await runtime.learnPlan?.(app.environmentId);
  await runtime.apply({ ...app, version: app.version + 1 });
  expect(quotaAt.get("deployments")).toEqual({ pods: "50" });
});

test("what an older deployer applies beside this one is put right once, and nothing is applied that is right", async () => {
  const { api, quota } = await cluster();
  const { runtime, environments } = await deployer(api, FREE);
  await runtime.apply(app);
  const older = await deployer(api, NONE);
  await older.environments.reapply();
  await older.runtime.stop();
  expect(quota()).toEqual({ pods: "50" });
  await eventually("it is put right", async () => {
    await environments.reapply();
    return quota()?.["limits.cpu"] === "7000m";
  });
  await eventually("it comes to rest", async () => {
    const seen = api.writes().length;
    await environments.reapply();
    return api.writes().length === seen;
  });
});
