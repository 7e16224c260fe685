import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import type { KubernetesObject } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { canMakeSmallVolumes, makeSmallVolume } from "../../../../test/support/small-volume.ts";
import { newId } from "../../../kit/ids.ts";
import { fillDisk } from "../../../kit/testing/small-disk.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import type { Kind } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { nameOf } from "../../kube/names.ts";
import { newPassword } from "../lifecycle.ts";
import type { Addon, AddonOutcome } from "../port.ts";
import { provePooler } from "./pooler/testing.ts";
import { addonsForTest, newAddon, RESTART_MS } from "./testing.ts";

const changes = new EventEmitter();
let cluster: ReturnType<typeof addonsForTest>;
let addons: ReturnType<typeof open>;

function open(more: Parameters<typeof cluster.open>[0] = {}) {
  const adapter = cluster.open(more);
  adapter.watch((serviceId) => changes.emit(serviceId));
  return adapter;
}

beforeAll(() => {
  cluster = addonsForTest();
  addons = open();
});
afterAll(() => cluster?.stop());

/** As the reconciler does: once more when something changed, and now and then. */
function until(state: AddonOutcome["state"], addon: Addon, password: string, by = addons, patience?: number) {
  const probe = async () => {
    const changed = once(changes, addon.serviceId, { signal: AbortSignal.timeout(2_000) }).catch(() => {});
    const outcome = await by.ensure(addon, password);
    if (outcome.state === state) return outcome;
    await changed;
    return false;
  };
  return eventually(`the addon is ${state}`, probe, patience);
}

const questions = {
  postgres: { write: "create table kept as select 'yes' as n", read: "select n from kept" },
  redis: { write: "SET kept yes", read: "GET kept" },
};

test.concurrent.each(["postgres", "redis"] as const)(
  "a %s addon answers to the keys it publishes, keeps its data, and is gone with it when it is deleted",
  async (type) => {
    const [addon, password] = [newAddon(type), newPassword()];
    await until("ready", addon, password);
    expect(cluster.keysOf(addon, password).HOST).toBe(
      `${addon.name}.${cluster.spaceOf(addon.environmentId)}.svc`,
    );
    expect(await cluster.ask(addon, password, questions[type].write)).toMatchObject({ ok: true });
    expect((await cluster.ask(addon, newPassword(), questions[type].read)).said).toMatch(
      /password authentication failed|WRONGPASS|NOAUTH/,
    );
    const elsewhere = await cluster.ask(addon, password, questions[type].read, newId("env"));
    expect(elsewhere.ok).toBe(false);
    expect(elsewhere.said).not.toContain("yes");

    const namespace = cluster.spaceOf(addon.environmentId);
    const before = await cluster.kube.get(kinds.Pod, `${nameOf(addon.serviceId)}-0`, namespace);
    expect(JSON.stringify(before)).not.toContain(password);
    await cluster.kube.remove(kinds.Pod, before!.metadata!.name!, namespace);
    await eventually("another server runs", async () => {
      const now = await cluster.kube.get(kinds.Pod, before!.metadata!.name!, namespace);
      return now && now.metadata?.uid !== before?.metadata?.uid && (await addons.status(addon))?.running;
    });
    expect(await cluster.ask(addon, password, questions[type].read)).toEqual({ ok: true, said: "yes" });

    const kinds6 = ["NetworkPolicy", "PersistentVolumeClaim", "Pod", "Secret", "Service", "StatefulSet"];
    expect(await cluster.leftOf(addon)).toEqual(kinds6);
    await addons.remove(addon);
    await addons.remove(addon);
    await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
  },
);

test.concurrent.each(["postgres", "redis"] as const)(
  "a new password of a %s addon ends the old one and keeps the data, and an older one is never brought back",
  async (type) => {
    const [addon, old, next] = [newAddon(type), newPassword(), newPassword()];
    await until("ready", addon, old);
    expect(await cluster.ask(addon, old, questions[type].write)).toMatchObject({ ok: true });
    const now = { ...addon, generation: 1 };
    expect(await addons.ensure(now, next)).toMatchObject({ state: "waiting" });
    await until("ready", now, next);
    expect(await cluster.ask(addon, next, questions[type].read)).toEqual({ ok: true, said: "yes" });
    expect((await cluster.ask(addon, old, questions[type].read)).ok).toBe(false);
    await expect(addons.ensure(addon, old)).rejects.toThrow(/newer password/);
    await eventually("the old Secret is gone", async () => {
      await addons.ensure(now, next);
      return (await cluster.leftOf(addon)).filter((kind) => kind === "Secret").length === 1;
    });
  },
);

test.concurrent("another size is other resources, and usage records since when", async () => {
  const [addon, password] = [newAddon("redis"), newPassword()];
  const asked = Date.now();
  await until("ready", addon, password);
  const before = await eventually("it runs", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen;
  });
  expect(before).toMatchObject({ size: "nano", usage: [{ replicas: 1, size: "nano" }] });
  expect(before.usage[0]!.at).toBeGreaterThan(asked - 1_500);
  const small = { ...addon, size: "small" as const };
  await until("ready", small, password);
  const after = await eventually("it runs again", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen.size === "small" && seen;
  });
  expect(after.usage[0]!.at).toBeGreaterThan(before.usage[0]!.at);
  expect((await cluster.ask(addon, password, "CONFIG GET maxmemory")).said.split("\n").at(-1)).toBe(
    String(384 * 1024 * 1024),
  );
});

test.concurrent("an image that cannot be pulled and a volume that is not there are reported, and end nothing", async () => {
  const wrong = open({
    images: { postgres: `${cluster.images.postgres}-none`, redis: `${cluster.images.redis}-none` },
  });
  const [addon, password] = [newAddon("redis"), newPassword()];
  expect(await until("failed", addon, password, wrong)).toMatchObject({
    message: expect.stringMatching(/The server's image, .*-none, cannot be pulled/),
  });
  const seen = await wrong.status(addon);
  expect(seen).toMatchObject({ running: false, problem: { state: "degraded" } });
  // The operator corrects the image of the set, and Berth keeps that.
  const namespace = cluster.spaceOf(addon.environmentId);
  const correction = {
    metadata: { namespace, name: nameOf(addon.serviceId) },
    spec: {
      template: { spec: { containers: [{ ...(await containerOf(addon)), image: cluster.images.redis }] } },
    },
  };
  await cluster.kube.merge(kinds.StatefulSet, correction);
  await until("ready", addon, password, wrong);
  await wrong.stop();

  const placeless = open({ storage: { size: "64Mi", className: "no-such-class" } });
  const other = newAddon("postgres", addon.environmentId);
  expect(await until("failed", other, password, placeless)).toMatchObject({
    message: expect.stringContaining("no storage for the volume"),
  });
  await placeless.stop();
  await addons.remove(other);
});

test.concurrent("an addon has the version that was asked for, and its volume grows where the cluster lets it", async () => {
  const className = `growing-${randomBytes(3).toString("hex")}`;
  await cluster.kube.apply(GROWING, {
    metadata: { name: className },
    provisioner: "berth.dev/folders",
    allowVolumeExpansion: true,
    volumeBindingMode: "WaitForFirstConsumer",
  });
  const earlierImages = { postgres: [inject("clusterImages").postgres15] };
  const growing = open({ earlierImages, storage: { size: "64Mi", className } });
  expect(growing.choiceOf("postgres").versions).toEqual(["18", "15"]);
  const [addon, password] = [{ ...newAddon("postgres"), version: "15", storageGib: 1 }, newPassword()];
  await until("ready", addon, password, growing);
  expect((await cluster.ask(addon, password, "show server_version")).said).toMatch(/^15\./);
  expect(await growing.describe(addon)).toEqual({ version: "15", storageBytes: 1024 ** 3 });
  expect(await growing.cannotGrow(addon, 2)).toBeUndefined();
  await until("ready", { ...addon, storageGib: 2 }, password, growing);
  expect(await growing.describe(addon)).toMatchObject({ storageBytes: 2 * 1024 ** 3 });
  expect((await growing.status(addon))?.storageGib).toBe(2);
  await growing.stop();
  await cluster.kube.remove(GROWING, className);

  const [fixed, other] = [newAddon("redis", addon.environmentId), newPassword()];
  await until("ready", fixed, other);
  expect(await addons.cannotGrow(fixed, 2)).toContain("The cluster does not let the volume grow");
});

test.concurrent("an addon with a pooler admits more clients than its server, with the password of the server", async () => {
  await provePooler(cluster, cluster.openEngines("statefulset"), newAddon("postgres"));
});

const GROWING: Kind<KubernetesObject & Record<string, unknown>> = {
  ...{ apiVersion: "storage.k8s.io/v1", kind: "StorageClass", plural: "storageclasses" },
};

async function containerOf({ serviceId, environmentId }: Addon) {
  const namespace = cluster.spaceOf(environmentId);
  const set = await cluster.kube.get(kinds.StatefulSet, nameOf(serviceId), namespace);
  return set!.spec!.template.spec!.containers[0]!;
}

test.concurrent("a server that ends by itself is started again", async () => {
  const [addon, password] = [newAddon("redis"), newPassword()];
  await until("ready", addon, password);
  expect((await cluster.ask(addon, password, "SHUTDOWN NOSAVE")).said).not.toContain("ERR");
  const namespace = cluster.spaceOf(addon.environmentId);
  await eventually("it is back", async () => {
    const pod = await cluster.kube.get(kinds.Pod, `${nameOf(addon.serviceId)}-0`, namespace);
    const again = (pod?.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0;
    return again && (await addons.status(addon))?.running;
  });
});

test.concurrent("two deployers that make an addon at once make one, and a third finds it", async () => {
  const [addon, password, second] = [newAddon("postgres"), newPassword(), open()];
  const both = () => Promise.allSettled([addons.ensure(addon, password), second.ensure(addon, password)]);
  for (let round = 0; round < 3; round++) await both();
  await until("ready", addon, password);
  await until("ready", addon, password, second);
  expect((await cluster.leftOf(addon)).filter((kind) => kind === "StatefulSet")).toHaveLength(1);
  const third = open();
  expect(await third.status(addon)).toMatchObject({ serviceId: addon.serviceId, running: true });
  expect((await third.list()).map((one) => one.serviceId)).toContain(addon.serviceId);
  await third.remove({ serviceId: addon.serviceId, type: addon.type });
  expect((await cluster.leftOf(addon)).filter((kind) => kind !== "PersistentVolumeClaim")).toEqual([]);
  await Promise.all([second.stop(), third.stop()]);
});

const withSmallVolumes = test.skipIf(!(await canMakeSmallVolumes("Tests of full volumes are")));

withSmallVolumes.concurrent(
  "a postgres addon whose volume is full says so, and serves again with all its data once the volume is larger",
  async ({ onTestFinished }) => {
    const volume = await makeSmallVolume(cluster.kube);
    onTestFinished(volume.remove);
    const own = open({ storage: { size: "1Gi", className: volume.className } });
    const [addon, password] = [{ ...newAddon("postgres"), storageGib: 1 }, newPassword()];
    await until("ready", addon, password, own);
    expect(await cluster.ask(addon, password, questions.postgres.write)).toMatchObject({ ok: true });

    fillDisk(volume.path, 60 * 1024 ** 2);
    await cluster.fillVolume(addon, password, async () => {
      const problem = (await own.status(addon))?.problem;
      return problem?.message.includes("The volume is full") ?? false;
    });
    const larger = { ...addon, storageGib: 2 };
    await own.ensure(larger, password);
    await volume.grow(cluster.spaceOf(addon.environmentId));
    await until("ready", larger, password, own, RESTART_MS);
    expect(await cluster.ask(addon, password, questions.postgres.read)).toEqual({ ok: true, said: "yes" });
    expect(await cluster.ask(addon, password, "insert into kept values ('more')")).toMatchObject({
      ok: true,
    });
    await own.remove(addon);
  },
  600_000,
);

withSmallVolumes.concurrent(
  "a redis addon whose volume is full refuses writes and answers reads, and takes writes once the volume is larger",
  async ({ onTestFinished }) => {
    const volume = await makeSmallVolume(cluster.kube);
    onTestFinished(volume.remove);
    const own = open({ storage: { size: "1Gi", className: volume.className } });
    const [addon, password] = [{ ...newAddon("redis"), storageGib: 1 }, newPassword()];
    await until("ready", addon, password, own);
    expect(await cluster.ask(addon, password, questions.redis.write)).toMatchObject({ ok: true });

    fillDisk(volume.path);
    await eventually("it refuses writes", async () =>
      (await cluster.ask(addon, password, `SET more ${"x".repeat(9_000)}`)).said.includes("MISCONF"),
    );
    expect(await cluster.ask(addon, password, questions.redis.read)).toEqual({ ok: true, said: "yes" });
    expect(await own.status(addon)).toMatchObject({ running: true });
    const larger = { ...addon, storageGib: 2 };
    await own.ensure(larger, password);
    await volume.grow(cluster.spaceOf(addon.environmentId));
    await eventually("it takes writes again", async () => {
      return (await cluster.ask(addon, password, "SET kept again")).ok;
    });
    await own.remove(addon);
  },
  600_000,
);
