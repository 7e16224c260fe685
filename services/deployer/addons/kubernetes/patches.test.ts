import type { V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../test/support/kube-api/server.ts";
import { readConfig } from "../../../kit/process/config.ts";
import { metricsText } from "../../../kit/telemetry.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { connectKube } from "../../kube/client.ts";
import { Namespace, Pod, StatefulSet } from "../../kube/kinds.ts";
import { nameOf } from "../../kube/names.ts";
import type { AddonType } from "../../terms/services.ts";
import { newPassword } from "../lifecycle.ts";
import type { Addon } from "../port.ts";
import { createKubernetesAddons } from "./adapter.ts";
import { kubernetesAddonFields, patchImages } from "./config.ts";
import { newerPatches } from "./patches.ts";

// Which patch releases servers follow, and in which order.

test.each<[AddonType, string, string | undefined]>([
  ["postgres", "docker.io/library/postgres:18.1", "mirror.example/library/postgres:18.3"],
  ["postgres", "postgres:17.2", "postgres:17.7"],
  ["postgres", "postgres:18.3", undefined],
  ["postgres", "postgres:18.4", undefined],
  ["postgres", "postgres:16.4", undefined],
  ["postgres", "postgres:18", undefined],
  ["postgres", "postgres:18.1-alpine", undefined],
  ["postgres", "postgres:latest", undefined],
  ["postgres", `postgres@sha256:${"0".repeat(64)}`, undefined],
  ["postgres", "example.test/timescale:18.1", undefined],
  ["postgres", "", undefined],
  ["redis", "redis:8.2.3", "redis:8.2.10"],
  ["redis", "redis:8.1.9", undefined],
  ["redis", "redis:8.2", undefined],
  ["redis", "valkey/valkey:8.2.3", undefined],
])("a %s server with %s moves to %s", (type, image, expected) => {
  const newer = newerPatches({
    postgres: ["postgres:18.2", "mirror.example/library/postgres:18.3", "postgres:17.7", "postgres:newest"],
    redis: ["redis:8.2.10", "redis:8.2.4"],
  });
  expect(newer(type, image)).toBe(expected);
});

test("servers may move to the images of new ones and of earlier versions, unless they are to stay", () => {
  const read = (env: Record<string, string>) => patchImages(readConfig(env, kubernetesAddonFields));
  const images = {
    ADDON_IMAGES: '{"redis":"redis:8.2.4"}',
    ADDON_EARLIER_IMAGES: '{"postgres":["postgres:17.7"]}',
  };
  expect(read(images)).toEqual({ postgres: ["postgres:18", "postgres:17.7"], redis: ["redis:8.2.4"] });
  expect(read({ ...images, ADDON_PATCHES: "off" })).toEqual({ postgres: [], redis: [] });
  for (const wrong of ["[]", '{"mysql":["a"]}', '{"redis":"a"}', '{"redis":[""]}'])
    expect(() => read({ ADDON_EARLIER_IMAGES: wrong })).toThrow("ADDON_EARLIER_IMAGES");
});

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const NAMESPACE = "berth-env-1";
const password = newPassword();
const addon = (n: number): Addon => ({
  serviceId: `svc_${n}`,
  accountId: "acc_1",
  projectId: "prj_1",
  environmentId: "env_1",
  name: `db${n}`,
  type: "postgres",
  size: "nano",
  generation: 2,
});

/** The addons of a deployer that gives new servers this image. */
function deployer(api: KubeApi, image: string) {
  const images = { postgres: image, redis: "redis:8.2.4" };
  const servers = createKubernetesAddons({
    ...{
      kube: connectKube(api.config),
      namespacePrefix: "berth",
      watch: "cluster",
      user: 999,
      dns: {},
      images,
    },
    log: { info() {}, warn() {}, error: console.error },
    ensureNamespace: async () => {},
    hasNamespace: () => true,
    storage: { size: "1Gi" },
    patchImages: { postgres: [images.postgres], redis: [images.redis] },
    patchAfterMs: 0,
  });
  stops.push(servers.stop);
  return servers;
}

const scope = ({ apiVersion, plural }: { apiVersion: string; plural: string }) => ({
  ...{ apiVersion, plural },
  namespace: NAMESPACE,
});

/** A cluster with so many servers of PostgreSQL 18.1. */
async function cluster(count: number) {
  const api = await startKubeApi();
  stops.push(api.stop);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
  const sets = () => api.store.list(scope(StatefulSet), {}).map(([, set]) => set as unknown as V1StatefulSet);
  const setOf = (n: number) => sets().find(({ metadata }) => metadata?.name === nameOf(`svc_${n}`))!;
  /** What the cluster does: the pod of a set, as the set wants it. */
  const runPod = (n: number, ready = true) => {
    const { metadata, spec } = setOf(n).spec!.template;
    const conditions = [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime: new Date() }];
    const pod = { metadata: { ...metadata, name: `${nameOf(`svc_${n}`)}-0` }, spec, status: { conditions } };
    api.store.put(scope(Pod), JSON.parse(JSON.stringify(pod as V1Pod)));
  };
  const first = deployer(api, "postgres:18.1");
  for (let n = 0; n < count; n++) {
    await first.ensure(addon(n), password);
    runPod(n);
  }
  return {
    api,
    runPod,
    setOf,
    imageOf: (n: number) => setOf(n).spec!.template.spec!.containers[0]!.image,
  };
}

/** Waits until these are the servers whose turn it is. */
const turns = (servers: ReturnType<typeof deployer>, ...expected: number[]) =>
  eventually(`it is the turn of ${expected}`, async () => {
    await servers.status(addon(0));
    const due = (await servers.list()).filter(({ outdated }) => outdated).map(({ serviceId }) => serviceId);
    return JSON.stringify(due) === JSON.stringify(expected.map((n) => `svc_${n}`));
  });

async function metric(name: string): Promise<string | undefined> {
  return (await metricsText()).split("\n").find((line) => line.startsWith(`${name} `));
}

test("servers move to a newer patch release one after another, each when the one before serves", async () => {
  const { api, imageOf, runPod } = await cluster(3);
  const next = deployer(api, "postgres:18.2");
  next.watch(() => {});
  await turns(next, 0);
  expect(await metric("berth_addons_behind")).toBe("berth_addons_behind 3");
  // Whatever else is done to a server whose turn it is not leaves its image.
  await next.ensure(addon(2), password);
  expect(imageOf(2)).toBe("postgres:18.1");
  for (const n of [0, 1, 2]) {
    await next.ensure(addon(n), password);
    expect(imageOf(n)).toBe("postgres:18.2");
    await turns(next);
    runPod(n, false);
    await turns(next);
    // As often as it is repeated meanwhile.
    await next.ensure(addon(n), password);
    runPod(n);
    await turns(next, ...[n + 1].filter((one) => one < 3));
  }
  await eventually("all serve", async () => (await metric("berth_addons_stuck")) === "berth_addons_stuck 0");
  expect(await metric("berth_addons_behind")).toBe("berth_addons_behind 0");
});

test("when one that was moved does not serve, no other is moved until it does or goes", async () => {
  const { api, imageOf, runPod, setOf } = await cluster(3);
  const next = deployer(api, "postgres:18.2");
  next.watch(() => {});
  await turns(next, 0);
  await next.ensure(addon(0), password);
  runPod(0, false);
  await turns(next);
  expect(await metric("berth_addons_stuck")).toBe("berth_addons_stuck 1");
  // Nor by a deployer that starts meanwhile.
  const other = deployer(api, "postgres:18.2");
  await turns(other);
  await other.ensure(addon(1), password);
  expect(imageOf(1)).toBe("postgres:18.1");
  api.store.remove(scope(StatefulSet), setOf(0).metadata!.name!);
  api.store.remove(scope(Pod), `${nameOf("svc_0")}-0`);
  await turns(next, 1);
});

test("a server to which somebody gives its former image stays there, until there is a newer one again", async () => {
  const { api, imageOf, runPod, setOf } = await cluster(2);
  const next = deployer(api, "postgres:18.2");
  await turns(next, 0);
  await next.ensure(addon(0), password);
  const by = structuredClone(setOf(0));
  by.spec!.template.spec!.containers[0]!.image = "postgres:18.1";
  api.store.put(scope(StatefulSet), JSON.parse(JSON.stringify(by)));
  runPod(0);
  await turns(next, 1);
  await next.ensure(addon(0), password);
  expect(imageOf(0)).toBe("postgres:18.1");
  await turns(next, 1);
  await turns(deployer(api, "postgres:18.3"), 0);
});

test("a server that does not serve is not moved, nor one of another version", async () => {
  const { api, runPod } = await cluster(2);
  runPod(0, false);
  await turns(deployer(api, "postgres:18.2"), 1);
  await turns(deployer(api, "postgres:19.1"));
});

test("two deployers that write a server's objects at once end with the newer password, and bring none back", async () => {
  const { api, setOf } = await cluster(1);
  const [one, other] = [deployer(api, "postgres:18.1"), deployer(api, "postgres:18.1")];
  const rotated = { ...addon(0), generation: 3 };
  const both = [one.ensure(addon(0), password), other.ensure(rotated, newPassword())];
  await Promise.allSettled(both);
  expect(setOf(0).metadata?.annotations).toMatchObject({ "berth.dev/generation": "3" });
  await expect(one.ensure(addon(0), password)).rejects.toThrow("a newer password");
  // Removed after it was read: it is not made again.
  let gone = false;
  api.beforeEach(({ verb, plural }) => {
    if (gone || verb !== "apply" || plural !== "statefulsets") return;
    gone = true;
    api.store.remove(scope(StatefulSet), nameOf("svc_0"));
  });
  await expect(one.ensure(rotated, password)).rejects.toThrow("was removed");
  expect(api.store.list(scope(StatefulSet), {})).toEqual([]);
});

test("a server of a former version is not restarted for a limit of local disk, and gets it with its next change", async () => {
  const { api, setOf } = await cluster(1);
  const diskOf = () => setOf(0).spec!.template.spec!.containers[0]!.resources!.limits!["ephemeral-storage"];
  expect(diskOf()).toBe("1Gi");
  const former = JSON.parse(JSON.stringify(setOf(0))) as V1StatefulSet;
  const { limits, requests } = former.spec!.template.spec!.containers[0]!.resources!;
  for (const amounts of [limits, requests]) delete amounts!["ephemeral-storage"];
  api.store.put(scope(StatefulSet), former as never);
  const next = deployer(api, "postgres:18.1");
  await next.ensure(addon(0), password);
  expect(setOf(0).spec!.template).toEqual(former.spec!.template);
  await next.ensure({ ...addon(0), size: "small" }, password);
  expect(diskOf()).toBe("2Gi");
});
