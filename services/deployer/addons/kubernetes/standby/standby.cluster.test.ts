import { EventEmitter, once } from "node:events";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { eventually } from "../../../../kit/testing/testing.ts";
import * as kinds from "../../../kube/kinds.ts";
import { label, selector } from "../../../kube/names.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon, AddonStatus } from "../../port.ts";
import { PRIMARY } from "../server/annotations.ts";
import { type Ordinal, podName, replicationName } from "../server/manifests.ts";
import { addonsForTest, newAddon as newAddonOf } from "../testing.ts";
import { readReplication } from "./replication.ts";

const changes = new EventEmitter();
let cluster: ReturnType<typeof addonsForTest>;
let addons: ReturnType<typeof open>;

function open(more: Parameters<typeof cluster.open>[0] = {}) {
  const adapter = cluster.open(more);
  adapter.watch((serviceId) => changes.emit(serviceId));
  return adapter;
}

// Servers of four addons start, and start again, at once: on a slow machine that takes minutes.
const PATIENCE_MS = 300_000;
vi.setConfig({ testTimeout: 2 * PATIENCE_MS });

beforeAll(() => {
  cluster = addonsForTest();
  addons = open();
});
afterAll(() => cluster?.stop());

/** A redis addon, with a standby unless it is to have one server. */
const newAddon = (replicas = 2): Addon => ({ ...newAddonOf("redis"), replicas });

/** As the reconciler does: looks at the addon when something changed, and has it brought to what is desired if it is not. */
function until(
  what: string,
  addon: Addon,
  password: string,
  is: (status: AddonStatus) => unknown,
  by = addons,
) {
  const look = async () => {
    const changed = once(changes, addon.serviceId, { signal: AbortSignal.timeout(2_000) }).catch(() => {});
    const status = await by.status(addon);
    const settled = status?.running && !status.outdated && status.size === addon.size;
    if (settled && status.replicas === addon.replicas && is(status)) return status;
    if (!settled || status.replicas !== addon.replicas) await by.ensure(addon, password);
    await changed;
    return false;
  };
  return eventually(what, look, PATIENCE_MS);
}

const serve = (count: number) => (status: AddonStatus) => status.usage.at(-1)?.replicas === count;

/** Makes an addon which this process reaches as the deployer does. */
async function make(addon: Addon, password: string, by = addons): Promise<void> {
  await cluster.ensureNamespace(addon);
  await cluster.admitThisMachine(addon.environmentId);
  await until("all servers serve", addon, password, serve(addon.replicas ?? 1), by);
}

const podOf = ({ serviceId, environmentId }: Addon, ordinal: Ordinal) =>
  cluster.kube.get(kinds.Pod, podName(serviceId, ordinal), cluster.spaceOf(environmentId));

/** What each server says of itself. */
async function rolesOf(addon: Addon) {
  const namespace = cluster.spaceOf(addon.environmentId);
  const { data } = (await cluster.kube.get(kinds.Secret, replicationName(addon.serviceId), namespace))!;
  const secret = Buffer.from(data!.password!, "base64").toString();
  const roles = ([0, 1] as const).map(async (ordinal) => {
    const host = (await podOf(addon, ordinal))?.status?.podIP;
    const says = host && (await readReplication({ host, port: 6379 }, secret).catch(() => undefined));
    return says ? says.role : undefined;
  });
  return Promise.all(roles);
}

const ask = async (addon: Addon, password: string, words: string) =>
  (await cluster.ask(addon, password, words)).said;

/** Runs a command in a pod that may reach a host, once the network has learnt of the pod; with the password of an addon. */
function fromPod({ environmentId }: Addon, password: string, host: string, command: string) {
  const script = `for try in $(seq 120); do said=$({ ${command}; } 2>/dev/null) && { echo "$said"; exit 0; }; sleep 0.5; done; exit 1`;
  return cluster.inPod(environmentId, cluster.images.redis, script, { HOST: host, REDISCLI_AUTH: password });
}

test.concurrent("a primary whose pod comes back stays the primary; with one server that is the first one, with all data", async () => {
  const [addon, password] = [newAddon(), newPassword()];
  await make(addon, password);
  const small = { ...addon, size: "small" as const };
  await until("both serve with another size", small, password, serve(2));
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  expect(await ask(addon, password, "SET kept yes")).toBe("OK");
  const second = podName(addon.serviceId, 1);
  await cluster.kube.remove(kinds.Pod, second, cluster.spaceOf(addon.environmentId));
  await eventually("it ends", async () => !(await addons.status(addon))?.running);
  const back = await until("it is back", small, password, serve(2));
  expect(back.primary).toBe(second);
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  expect(await ask(addon, password, "GET kept")).toBe("yes");

  await until("it has one server", { ...small, replicas: 1 }, password, serve(1));
  expect(await ask(addon, password, "GET kept")).toBe("yes");
  const kinds6 = ["NetworkPolicy", "PersistentVolumeClaim", "Pod", "Secret", "Service", "StatefulSet"];
  await eventually(
    "the other one is gone",
    async () => (await cluster.leftOf(addon)).length === kinds6.length,
  );
  expect(await cluster.leftOf(addon)).toEqual(kinds6);
  expect((await podOf(addon, 0))?.metadata?.annotations).not.toHaveProperty(PRIMARY);
});

test.concurrent("an addon with data gets a standby, a new password reaches both, and all is gone when it is deleted", async () => {
  const [addon, password, next] = [newAddon(1), newPassword(), newPassword()];
  await make(addon, password);
  await ask(addon, password, "SET kept yes");
  const two = { ...addon, replicas: 2 };
  await until("both serve", two, password, serve(2));
  expect(await ask(addon, password, "GET kept")).toBe("yes");
  expect(await rolesOf(addon)).toEqual(["master", "slave"]);

  const rotated = { ...two, generation: 1 };
  await eventually("the password is there", async () => {
    const changed = once(changes, addon.serviceId, { signal: AbortSignal.timeout(2_000) }).catch(() => {});
    if ((await addons.ensure(rotated, next)).state === "ready") return true;
    await changed;
    return false;
  });
  expect(await ask(addon, next, "GET kept")).toBe("yes");
  expect(await ask(addon, password, "GET kept")).toMatch(/WRONGPASS|NOAUTH/);
  await until("both serve", rotated, next, serve(2));
  // They have changed places for it.
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  expect(await ask(addon, next, "GET kept")).toBe("yes");
  const secrets = async () => (await cluster.leftOf(addon)).filter((kind) => kind === "Secret").length;
  expect(await secrets()).toBe(2);
  await expect(addons.ensure(two, password)).rejects.toThrow(/newer password/);

  await addons.remove(addon);
  await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
});

test.concurrent("a backup is restored into the primary, and its standby has those data too", async () => {
  const { run, store } = await cluster.startStore();
  const own = open({ copies: { image: `${run.registry.pull}/${run.images.platform}`, store } });
  const [addon, password] = [newAddon(), newPassword()];
  await make(addon, password, own);
  await cluster.admitCopies(addon);
  // The second one is the primary meanwhile.
  const small = { ...addon, size: "small" as const };
  await until("both serve", small, password, serve(2), own);
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  await ask(addon, password, "SET kept first");
  const { signal } = new AbortController();
  await own.backups.make(small, password, "backups/standby", signal);
  await ask(addon, password, "MSET kept second later yes");
  const backup = { key: "backups/standby", foreign: false, uploaded: false };
  await own.backups.restore(small, password, backup, signal);
  expect(await ask(addon, password, "MGET kept later")).toBe("first");
  await until("both serve", small, password, serve(2), own);
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  const host = (await podOf(addon, 0))!.status!.podIP!;
  const { said } = await fromPod(addon, password, host, `redis-cli -e -h "$HOST" MGET kept later`);
  expect(said).toBe("first");
  const { items } = await cluster.kube.list(kinds.PersistentVolumeClaim, {
    namespace: cluster.spaceOf(addon.environmentId),
    labels: selector({ [label("serviceId")]: addon.serviceId }),
  });
  expect(items).toHaveLength(2);
});

test.concurrent("servers of Valkey, whose programs have other names, replicate and change places", async () => {
  const own = open({ images: { ...cluster.images, redis: cluster.images.valkey } });
  const [addon, password] = [newAddon(), newPassword()];
  await make(addon, password, own);
  expect(await rolesOf(addon)).toEqual(["master", "slave"]);
  expect(await ask(addon, password, "INFO server")).toContain("valkey_version");
  expect(await ask(addon, password, "SET kept yes")).toBe("OK");
  await until("both serve with another size", { ...addon, size: "small" }, password, serve(2), own);
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  expect(await ask(addon, password, "GET kept")).toBe("yes");
});

// Nothing else beside it: its script takes all of a processor that it can get.
test("the standby takes over from a primary that does not answer, which is its standby then", async () => {
  const [addon, password] = [newAddon(), newPassword()];
  await make(addon, password);
  expect(await addons.status(addon)).toMatchObject({ primary: podName(addon.serviceId, 0), replicas: 2 });
  expect(await ask(addon, password, "SET kept yes")).toBe("OK");
  expect(await rolesOf(addon)).toEqual(["master", "slave"]);
  const before = await podOf(addon, 0);
  expect(JSON.stringify([before, await podOf(addon, 1)])).not.toContain(password);

  // A script that never ends: it answers nobody else, and its container is killed after a minute.
  const { HOST } = cluster.keysOf(addon, password);
  const busy = `timeout 5 redis-cli -h "$HOST" EVAL 'while true do end' 0; [ $? = 124 ]`;
  expect(await fromPod(addon, password, HOST, busy)).toMatchObject({ ok: true });
  const second = podName(addon.serviceId, 1);
  await until("the other one takes over", addon, password, ({ primary }) => primary === second);
  expect(await ask(addon, password, "GET kept")).toBe("yes");
  expect(await ask(addon, password, "SET more yes")).toBe("OK");
  await until("both serve again", addon, password, serve(2));
  expect((await podOf(addon, 0))?.metadata?.uid).not.toBe(before?.metadata?.uid);
  expect(await rolesOf(addon)).toEqual(["slave", "master"]);
  expect(await ask(addon, password, "MGET kept more")).toBe("yes\nyes");
});
