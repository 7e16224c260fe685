import type { V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { Refusal } from "../../../../../test/support/kube-api/store.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, PersistentVolumeClaim, StatefulSet } from "../../../kube/kinds.ts";
import { label, labelsOf, nameOf } from "../../../kube/names.ts";
import { bytesOf } from "../../../kube/pods/resources.ts";
import { createKubernetesAddons } from "../adapter.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test.each([
  ["1024", 1024],
  ["1e3", 1000],
  ["5k", 5000],
  ["1.5Gi", 1.5 * 1024 ** 3],
  ["2G", 2e9],
  ["64Mi", 64 * 1024 ** 2],
  ["1E", 1e18],
])("%s are %d bytes", (quantity, bytes) => expect(bytesOf(quantity)).toBe(bytes));

const NAMESPACE = "berth-env-1";

/** A cluster with volumes of these sizes, and a deployer that gives new servers 5 GiB. */
async function cluster(volumes: Record<string, string>, growTo: string | undefined) {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
  const scope = { ...PersistentVolumeClaim, namespace: NAMESPACE };
  const labels = { ...labelsOf({ kind: "addon" }), [label("serviceId")]: "svc_1" };
  for (const [name, storage] of Object.entries(volumes))
    api.store.put(scope, { metadata: { name, labels }, spec: { resources: { requests: { storage } } } });
  const warnings: object[] = [];
  const images = { postgres: "postgres:18.1", redis: "redis:8.2.4" };
  const servers = createKubernetesAddons({
    ...{ kube, namespacePrefix: "berth", watch: "cluster", user: 999, dns: {}, images, growTo, checkMs: 0 },
    log: { info() {}, warn: (detail) => warnings.push(detail as object), error: console.error },
    ensureNamespace: async () => {},
    hasNamespace: () => true,
    storage: { size: "5Gi" },
    patchImages: { postgres: [], redis: [] },
  });
  stops.push(servers.stop);
  await servers.status({ type: "postgres", serviceId: "svc_1", environmentId: "env_1" });
  const sizeOf = async (name: string) =>
    (await kube.get<V1PersistentVolumeClaim>(PersistentVolumeClaim, name, NAMESPACE))?.spec?.resources
      ?.requests?.storage;
  return { api, kube, servers, warnings, sizeOf };
}

test("volumes of running servers grow to a larger size, and none shrinks", async () => {
  const { servers, sizeOf } = await cluster({ small: "1Gi", even: "5120Mi", large: "8Gi" }, "5Gi");
  await eventually("it has grown", async () => {
    await servers.list();
    return (await sizeOf("small")) === "5Gi";
  });
  expect([await sizeOf("even"), await sizeOf("large")]).toEqual(["5120Mi", "8Gi"]);
});

test("volumes keep their size unless they are to grow", async () => {
  const { api, servers, sizeOf } = await cluster({ small: "1Gi" }, undefined);
  const lists = () => api.calls.filter(({ verb, plural }) => verb === "list" && plural === "services").length;
  await eventually("the objects were looked at", async () => {
    await servers.list();
    return lists() > 1;
  });
  expect(await sizeOf("small")).toBe("1Gi");
});

test("a volume that the cluster does not let grow is reported, and keeps none from growing", async () => {
  const { api, servers, warnings, sizeOf } = await cluster({ one: "1Gi", two: "1Gi" }, "5Gi");
  api.beforeEach(({ verb, name }) => {
    if (verb === "merge" && name === "one")
      throw new Refusal(403, "only dynamically provisioned pvc can be resized");
  });
  await eventually("the other has grown", async () => {
    await servers.list();
    return (await sizeOf("two")) === "5Gi";
  });
  expect(await sizeOf("one")).toBe("1Gi");
  expect(warnings).toContainEqual(expect.objectContaining({ namespace: NAMESPACE, volume: "one" }));
});

test("the volume of an addon grows as its users ask, is asked about first, and is created as large as they ask", async () => {
  const { api, kube, servers, sizeOf } = await cluster({}, undefined);
  const addon = {
    ...{ serviceId: "svc_1", accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" },
    ...{ name: "db", type: "postgres" as const, size: "nano" as const, generation: 0 },
  };
  const made = async () => {
    const { spec } = (await kube.get(StatefulSet, nameOf("svc_1"), NAMESPACE)) ?? {};
    return spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage;
  };
  await servers.ensure({ ...addon, storageGib: 7 }, "a-password");
  expect(await made()).toBe("7Gi");

  // As the cluster makes it from the template.
  const labels = { ...labelsOf({ kind: "addon" }), [label("serviceId")]: "svc_1" };
  const spec = { resources: { requests: { storage: "7Gi" } } };
  api.store.put(
    { ...PersistentVolumeClaim, namespace: NAMESPACE },
    { metadata: { name: "data", labels }, spec },
  );
  let refuses = true;
  api.beforeEach(({ verb, plural }) => {
    if (refuses && verb === "merge" && plural === "persistentvolumeclaims")
      throw new Refusal(403, "only dynamically provisioned pvc can be resized");
  });
  expect(await servers.cannotGrow(addon, 7)).toBeUndefined();
  expect(await servers.cannotGrow(addon, 8)).toContain("only dynamically provisioned pvc can be resized");
  refuses = false;
  expect(await servers.cannotGrow(addon, 8)).toBeUndefined();
  expect([await sizeOf("data"), await servers.describe(addon)]).toEqual([
    "7Gi",
    { version: "18.1", storageBytes: 7 * 1024 ** 3 },
  ]);

  await servers.ensure({ ...addon, storageGib: 8 }, "a-password");
  expect([await sizeOf("data"), await made()]).toEqual(["8Gi", "7Gi"]);
  expect(await servers.describe(addon)).toMatchObject({ storageBytes: 8 * 1024 ** 3 });
  await servers.ensure(addon, "a-password");
  expect(await sizeOf("data")).toBe("8Gi");
});

test("a volume that could not grow at once as its users asked grows later", async () => {
  const { api, servers, sizeOf } = await cluster({ data: "7Gi" }, undefined);
  let refuses = true;
  api.beforeEach(({ verb, plural }) => {
    if (refuses && verb === "merge" && plural === "persistentvolumeclaims")
      throw new Refusal(403, "exceeded quota");
  });
  const addon = {
    ...{ serviceId: "svc_1", accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" },
    ...{ name: "db", type: "postgres" as const, size: "nano" as const, generation: 0, storageGib: 9 },
  };
  await servers.ensure(addon, "a-password");
  expect(await sizeOf("data")).toBe("7Gi");
  await eventually("it knows the server", async () => (await servers.status(addon))?.storageGib === 9);
  refuses = false;
  await eventually("it has grown", async () => {
    await servers.list();
    return (await sizeOf("data")) === "9Gi";
  });
});
