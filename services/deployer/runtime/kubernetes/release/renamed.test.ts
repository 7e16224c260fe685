import { afterEach, beforeEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { connectKube } from "../../../kube/client.ts";
import { ConfigMap, Deployment, Ingress, Service } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "../runtime.ts";

const app = { ...release, env: {} };
/** The same service, renamed, and one that was created then under its former name. */
const renamed = { ...app, names: { ...app.names, service: "site" }, objectName: "web", revision: 6 };
const next = { ...app, serviceId: "svc_2", objectName: "web-4711" };

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

test("a renamed service answers at its new address, and its neighbours reach it as before", async () => {
  expect([await hostOf("svc_1"), hosts()]).toEqual(["web-test-shop.example.test", ["host-web-test-shop"]]);
  await runtime.apply(renamed);
  for (const kind of [Deployment, Service, Ingress]) expect(namesOf(kind)).toEqual(["web"]);
  expect([await hostOf("svc_1"), hosts()]).toEqual(["site-test-shop.example.test", ["host-site-test-shop"]]);
});

test("a service that is created under its former name has its address, and objects of its own", async () => {
  await runtime.apply(renamed);
  await runtime.apply(next);
  for (const kind of [Deployment, Service, Ingress]) expect(namesOf(kind)).toEqual(["web", "web-4711"]);
  expect([await hostOf("svc_1"), await hostOf("svc_2")]).toEqual([
    "site-test-shop.example.test",
    "web-test-shop.example.test",
  ]);
  await runtime.remove("svc_1");
  expect([namesOf(Deployment), hosts()]).toEqual([["web-4711"], ["host-web-test-shop"]]);
});

test("what a deployer made that does not know of renamed services is not left beside it", async () => {
  const { objectName: _, ...unknown } = renamed;
  await runtime.apply(unknown);
  expect(namesOf(Deployment)).toEqual(["site", "web"]);
  await runtime.apply({ ...renamed, revision: 7 });
  expect(namesOf(Deployment)).toEqual(["web"]);
});

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
