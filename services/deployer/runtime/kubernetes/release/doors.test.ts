import { afterEach, describe, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { HTTPRoute } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import type { DoorOptions, KubernetesRuntimeOptions } from "../options.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "../runtime.ts";
import { doorsOf, hasOtherDoors, hostOf } from "./doors.ts";

const GATEWAY = { name: "berth", namespace: "gateways" };
const doors = (ingress: boolean, httpRoute?: boolean): DoorOptions => ({
  ingress: { enabled: ingress, annotations: {} },
  ...(httpRoute !== undefined && {
    httpRoute: { enabled: httpRoute, parentRefs: [GATEWAY], annotations: { a: "b" }, timeouts: {} },
  }),
});
const both = doors(true, true);
const app = { ...release, env: {} };
const target = { name: "web", port: "http", portNumber: 80 };

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

describe("how requests from outside reach a service", () => {
  test("by an HTTPRoute: its Gateway, its name, its Service's port, and timeouts where some are given", () => {
    const made = (timeouts: Record<string, string>) => {
      const options = { ...both, httpRoute: { ...both.httpRoute!, timeouts }, scheme: "https" as const };
      return doorsOf(target, "web.example.test", options).httpRoute;
    };
    const backendRefs = [{ name: "web", port: 80 }];
    const spec = { parentRefs: [GATEWAY], hostnames: ["web.example.test"], rules: [{ backendRefs }] };
    expect(made({})).toEqual({ annotations: { a: "b" }, spec });
    const timeouts = { request: "0s" };
    expect(made(timeouts)?.spec.rules).toEqual([{ backendRefs, timeouts }]);
  });

  test("a service keeps its name by whatever it is reached, and is moved only when that is another", () => {
    for (const given of [doors(true), doors(false, true), both]) {
      const made = doorsOf(target, "web.example.test", { ...given, scheme: "http" });
      expect(hostOf(made)).toBe("web.example.test");
      expect(hasOtherDoors(made, given)).toBe(false);
      expect(hasOtherDoors(made, doors(!given.ingress.enabled, true))).toBe(true);
    }
    const worker = {};
    expect(hasOtherDoors(worker, both)).toBe(false);
  });
});

/** Starts a deployer's runtime with these doors in place of the one before. */
async function restart(
  api: KubeApi,
  given: DoorOptions & Partial<KubernetesRuntimeOptions>,
): Promise<KubernetesRuntime> {
  for (const stop of stops.splice(1).reverse()) await stop();
  const log = { info() {}, warn() {}, error: console.error };
  const options = manyOptions({ kube: connectKube(api.config), log, compareMs: 50, ...given });
  const runtime = createKubernetesRuntime(options, createEnvironments(options));
  stops.push(runtime.stop);
  await runtime.start();
  return runtime;
}

/** A cluster on which an app is reached by an Ingress. */
async function open() {
  const api = await startKubeApi();
  stops.push(api.stop);
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  const first = await restart(api, doors(true));
  await first.apply(app);
  const count = (apiVersion: string, plural: string) =>
    api.store.list({ apiVersion, plural, namespace: "many-env-1" }, {}).length;
  return {
    api,
    url: (await first.status(app.serviceId))?.url,
    /** How many objects there are of each kind. */
    found: () => ({
      ingresses: count("networking.k8s.io/v1", "ingresses"),
      routes: count("gateway.networking.k8s.io/v1", "httproutes"),
    }),
  };
}

const isDrifted = (runtime: KubernetesRuntime) =>
  eventually("the service is due", async () => (await runtime.status(app.serviceId))?.drifted);

describe("an installation that changes from Ingress to Gateway API", () => {
  test("and back: each app gets the new one before it loses the old, of which nothing is left", async () => {
    const { api, url, found } = await open();
    expect(url).toContain("web-test-shop.");
    expect(found()).toEqual({ ingresses: 1, routes: 0 });

    const next = await restart(api, doors(false, true));
    await isDrifted(next);
    const seen = api.calls.length;
    await next.apply(app);
    expect(found()).toEqual({ ingresses: 0, routes: 1 });
    const written = api.calls.slice(seen).map(({ verb, plural }) => `${verb} ${plural}`);
    expect(written.indexOf("apply httproutes")).toBeGreaterThan(-1);
    expect(written.indexOf("apply httproutes")).toBeLessThan(written.indexOf("delete ingresses"));
    expect(await next.status(app.serviceId)).toMatchObject({ url });
    expect((await next.status(app.serviceId))?.drifted).toBeUndefined();

    const last = await restart(api, doors(true, false));
    await isDrifted(last);
    await last.apply(app);
    expect(found()).toEqual({ ingresses: 1, routes: 0 });
    expect(await last.status(app.serviceId)).toMatchObject({ url });
  });

  test("has both while names move, and each goes with the service", async () => {
    const { api, found } = await open();
    const runtime = await restart(api, both);
    await isDrifted(runtime);
    await runtime.apply(app);
    expect(found()).toEqual({ ingresses: 1, routes: 1 });
    await runtime.remove(app.serviceId);
    expect(found()).toEqual({ ingresses: 0, routes: 0 });
  });

  test("removes also what a deployer left that was killed on the way", async () => {
    const { api, found } = await open();
    const runtime = await restart(api, both);
    await isDrifted(runtime);
    let dies = true;
    api.beforeEach(({ verb, plural }) => {
      if (dies && verb === "delete" && plural === "ingresses") throw new Error("killed");
    });
    const next = await restart(api, doors(false, true));
    await isDrifted(next);
    await expect(next.apply(app)).rejects.toThrow();
    expect(found()).toEqual({ ingresses: 1, routes: 1 });
    dies = false;
    const after = await restart(api, doors(false, true));
    await isDrifted(after);
    await after.apply(app);
    expect(found()).toEqual({ ingresses: 0, routes: 1 });
  });

  test("asks a cluster without the Gateway API for nothing of it", async () => {
    const { api } = await open();
    const runtime = await restart(api, doors(true));
    await runtime.apply(app);
    await runtime.remove(app.serviceId);
    expect(api.calls.filter(({ plural }) => plural === "httproutes")).toEqual([]);
  });

  test.each(["cluster", "namespaces"] as const)(
    "goes on when the cluster loses the Gateway API, with watches of the %s",
    async (watch) => {
      const { api, found } = await open();
      const scope = { apiVersion: "v1", plural: "services", namespace: "many-env-1" };
      const isPutRight = async (runtime: KubernetesRuntime) => {
        api.store.remove(scope, app.names.service);
        await isDrifted(runtime);
        await runtime.apply(app);
        expect(api.store.find(scope, app.names.service)).toBeDefined();
      };
      const lost = await restart(api, { ...doors(true, false), watch });
      await isPutRight(lost);
      api.unknown.add("httproutes");
      api.endWatches();
      await isPutRight(lost);
      const begun = await restart(api, { ...doors(true, false), watch });
      await isPutRight(begun);
      await begun.remove(app.serviceId);
      expect(found()).toEqual({ ingresses: 0, routes: 0 });
    },
  );
});

test("a service that becomes private loses its address and its claim to it, and has one again once it is public", async () => {
  const { api, found, url } = await open();
  const runtime = await restart(api, both);
  const claims = () =>
    api.store.list({ apiVersion: "v1", plural: "configmaps", namespace: "many-home" }, {}).length;
  const services = () =>
    api.store.list({ apiVersion: "v1", plural: "services", namespace: "many-env-1" }, {}).length;
  await runtime.apply({ ...app, version: app.version + 1 });
  await runtime.setHosts(app.serviceId, [{ host: "shop.example.test" }]);
  expect(found()).toEqual({ ingresses: 2, routes: 2 });
  await runtime.setHosts(app.serviceId, []);
  await runtime.apply({ ...app, version: app.version + 2, public: false });
  expect({ ...found(), claims: claims(), services: services() }).toEqual({
    ...{ ingresses: 0, routes: 0, claims: 0, services: 1 },
  });
  expect((await runtime.status(app.serviceId))?.url).toBeUndefined();
  await runtime.scale(app.serviceId, app.version + 2, { replicas: 2, size: "small" });
  expect(await runtime.setHosts(app.serviceId, [{ host: "shop.example.test" }])).toEqual([]);
  expect({ ...found(), claims: claims() }).toEqual({ ingresses: 0, routes: 0, claims: 0 });
  await runtime.apply({ ...app, version: app.version + 3 });
  expect({ ...found(), claims: claims() }).toEqual({ ingresses: 2, routes: 2, claims: 1 });
  expect((await runtime.status(app.serviceId))?.url).toBe(url);
});

test.each(["cluster", "namespaces"] as const)(
  "a route that somebody changed or removed is put right, with watches of the %s",
  async (watch) => {
    const { api } = await open();
    const runtime = await restart(api, { ...doors(false, true), watch });
    await isDrifted(runtime);
    await runtime.apply(app);
    const scope = { ...HTTPRoute, namespace: "many-env-1" };
    const route = api.store.find(scope, app.names.service);
    const isRight = async () => {
      await isDrifted(runtime);
      await runtime.apply(app);
      expect(api.store.find(scope, app.names.service)?.spec).toEqual(route?.spec);
      expect((await runtime.status(app.serviceId))?.drifted).toBeUndefined();
    };
    api.store.merge(scope, app.names.service, { spec: { hostnames: ["elsewhere.example.test"] } });
    await isRight();
    api.store.remove(scope, app.names.service);
    await isRight();
    const lists = api.calls.filter(({ verb, plural }) => verb === "list" && plural === "httproutes");
    expect(lists.length > 1).toBe(watch === "namespaces");
  },
);
