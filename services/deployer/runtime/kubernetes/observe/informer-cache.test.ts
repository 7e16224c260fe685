import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { manyOptions, manyReleases, storeRunning } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { createKubernetesRuntime } from "../runtime.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** A cluster on which 30 services run, and a runtime that begins to watch it. */
async function open() {
  const api = await startKubeApi();
  stops.push(api.stop);
  const log = { info() {}, warn() {}, error: console.error };
  const options = manyOptions({ kube: connectKube(api.config), log, compareMs: 50 });
  storeRunning(api, manyReleases(10, 3), options);
  const runtime = createKubernetesRuntime(options, createEnvironments(options));
  stops.push(runtime.stop);
  const deployments = { apiVersion: "apps/v1", plural: "deployments", namespace: "many-env-3" };
  const setReplicas = (replicas: number) => api.store.merge(deployments, "web1", { spec: { replicas } });
  return { runtime, setReplicas };
}

test("a Deployment that somebody changes is drifted until that is undone, changed before the start or since", async () => {
  const { runtime, setReplicas } = await open();
  const areDrifted = async (...expected: string[]) => {
    const drifted = (await runtime.list()).filter((one) => one.drifted).map(({ serviceId }) => serviceId);
    return drifted.join() === expected.join();
  };
  setReplicas(7);
  await runtime.start();
  await eventually("what was changed before is seen", () => areDrifted("svc_3_1"));
  setReplicas(1);
  await eventually("it is as it was", () => areDrifted());
  setReplicas(8);
  await eventually("what is changed now is seen", () => areDrifted("svc_3_1"));
});

test("a runtime that starts reports no service as changed, and lists them all", async () => {
  const { runtime, setReplicas } = await open();
  const reported: string[] = [];
  runtime.watch(({ serviceId }) => reported.push(serviceId));
  await runtime.start();
  const listed = await runtime.list();
  expect(listed).toHaveLength(30);
  expect(new Set(listed.map(({ state }) => state))).toEqual(new Set(["running"]));
  setReplicas(7);
  await eventually("a change is reported", async () => reported.length > 0);
  expect(reported).toEqual(["svc_3_1"]);
});
