import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { metricsText } from "../../../../kit/telemetry.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, PersistentVolumeClaim, PostgresCluster } from "../../../kube/kinds.ts";
import { nameOf } from "../../../kube/names.ts";
import type { Addon } from "../../port.ts";
import { createCnpgAddons } from "./adapter.ts";
import { CLUSTER } from "./manifests.ts";

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const NAMESPACE = "berth-env-1";
const addon: Addon = {
  ...{ serviceId: "svc_1", accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" },
  ...{ name: "db", type: "postgres", engine: "cnpg", size: "nano", generation: 0 },
};

async function open() {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
  const servers = createCnpgAddons({
    ...{
      kube,
      namespacePrefix: "berth",
      watch: "cluster",
      user: 999,
      images: ["postgres:18.1", "postgres:17.7"],
    },
    log: { info() {}, warn() {}, error: console.error },
    ensureNamespace: async () => {},
    hasNamespace: () => true,
    storage: { size: "5Gi" },
    patchImages: { postgres: [], redis: [] },
    operatorNamespace: "cnpg-system",
    egress: [],
  });
  servers.watch(() => {});
  stops.push(servers.stop);
  const cluster = async () => (await kube.get(PostgresCluster, nameOf("svc_1"), NAMESPACE))!;
  return { api, kube, servers, cluster };
}

test("a server has the version and the storage that were asked for, which grows and never shrinks", async () => {
  const { api, servers, cluster } = await open();
  await servers.ensure({ ...addon, version: "17", storageGib: 7 }, "a-password");
  expect((await cluster()).spec).toMatchObject({ imageName: "postgres:17.7", storage: { size: "7Gi" } });
  const labels = { [CLUSTER]: nameOf("svc_1") };
  for (const [name, storage] of [
    ["one", "7Gi"],
    ["two", "8Gi"],
  ] as const)
    api.store.put(
      { ...PersistentVolumeClaim, namespace: NAMESPACE },
      { metadata: { name, labels }, spec: { resources: { requests: { storage } } } },
    );
  expect(await servers.describe(addon)).toEqual({ version: "17.7", storageBytes: 7 * 1024 ** 3 });
  await servers.ensure({ ...addon, version: "17", storageGib: 9 }, "a-password");
  expect((await cluster()).spec?.storage.size).toBe("9Gi");
  // The operator leaves the volumes of a server as they are that stopped because one of them is full.
  expect(await servers.describe(addon)).toMatchObject({ storageBytes: 9 * 1024 ** 3 });
  await eventually("it is known", async () => (await servers.status(addon))?.storageGib === 9);
  // As an operator set it, and as one that was made before its size could be chosen.
  for (const storageGib of [8, undefined]) {
    await servers.ensure({ ...addon, storageGib }, "a-password");
    expect((await cluster()).spec).toMatchObject({ imageName: "postgres:17.7", storage: { size: "9Gi" } });
  }
});

test("an archive that takes nothing new is counted", async () => {
  const { kube, servers } = await open();
  const metric = async () =>
    (await metricsText()).split("\n").find((line) => line.startsWith("berth_addon_archives_failing"));
  await servers.ensure(addon, "a-password");
  await servers.status(addon);
  const metadata = { name: nameOf("svc_1"), namespace: NAMESPACE };
  const archiving = (status: string) => {
    const conditions = [{ type: "ContinuousArchiving", status, message: "no such bucket" }];
    const failing = { metadata, status: { conditions } };
    return kube.merge(PostgresCluster, failing);
  };
  await archiving("False");
  await eventually("it fails", async () => (await metric()) === "berth_addon_archives_failing 1");
  await archiving("True");
  await eventually("it works", async () => (await metric()) === "berth_addon_archives_failing 0");
});
