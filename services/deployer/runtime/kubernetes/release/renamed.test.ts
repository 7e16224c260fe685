import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../../kube/client.ts";
import { ConfigMap } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "../runtime.ts";

const app = { ...release, env: {} };

let api: KubeApi;
let runtime: KubernetesRuntime;

beforeEach(async () => {
  api = await startKubeApi();
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  const log = { info() {}, warn() {}, error: console.error };
  const options = manyOptions({ kube: connectKube(api.config), log });
  runtime = createKubernetesRuntime(options, createEnvironments(options));
  await runtime.start();
  await runtime.apply(app);
});

afterEach(async () => {
  await runtime.stop();
  await api.stop();
});

const namesOf = (kind: { apiVersion: string; plural: string }, namespace = "many-env-1") =>
  api.store
    .list({ ...kind, namespace }, {})
    .map(([, { metadata }]) => metadata?.name)
    .sort();
const hosts = () => namesOf(ConfigMap, "many-home");
const hostOf = async (serviceId: string) => new URL((await runtime.status(serviceId))?.url ?? "").hostname;

test("an address that a service left with its environment's name is free for another", async () => {
  const live = { ...app, names: { ...app.names, environment: "live" }, revision: 6 };
  await runtime.apply(live);
  expect([await hostOf("svc_1"), hosts()]).toEqual(["web-live-shop.example.test", ["host-web-live-shop"]]);
  await runtime.apply({ ...app, serviceId: "svc_2", environmentId: "env_2" });
  expect([await hostOf("svc_2"), hosts()]).toEqual([
    "web-test-shop.example.test",
    ["host-web-live-shop", "host-web-test-shop"],
  ]);
});
