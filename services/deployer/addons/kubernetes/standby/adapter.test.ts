import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { Refusal } from "../../../../../test/support/kube-api/store.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace, PersistentVolumeClaim, Pod, Secret, Service, StatefulSet } from "../../../kube/kinds.ts";
import { label, labelsOf, nameOf } from "../../../kube/names.ts";
import type { Addon } from "../../port.ts";
import { ask } from "../../statistics/redis-replies.ts";
import { program, withRedis } from "../../testing.ts";
import { createKubernetesAddons } from "../adapter.ts";
import { PRIMARY, REPLACED } from "../server/annotations.ts";
import { type Ordinal, POD_NAME, podName, replicationName } from "../server/manifests.ts";
import { readReplication } from "./replication.ts";

// What a deployer does with a standby: a simulated API of a cluster, in whose pods are real servers of this machine.

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const NAMESPACE = "berth-env-1";
const WRITES = ["create", "apply", "merge", "delete"];
const password = "a-password";
const addon: Addon = {
  ...{ serviceId: "svc_1", accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" },
  ...{ name: "cache", type: "redis", size: "nano", replicas: 2, generation: 0 },
};

async function cluster() {
  const api = await startKubeApi();
  stops.push(api.stop);
  const kube = connectKube(api.config);
  api.store.put(Namespace, { metadata: { name: NAMESPACE } });
  const warnings: object[] = [];
  function deployer() {
    const servers = createKubernetesAddons({
      ...{ kube: connectKube(api.config), namespacePrefix: "berth", watch: "cluster", user: 999, dns: {} },
      log: { info() {}, warn: (detail) => warnings.push(detail as object), error: console.error },
      ensureNamespace: async () => {},
      hasNamespace: () => true,
      images: { postgres: "postgres:18", redis: "redis:8" },
      storage: { size: "1Gi" },
      patchImages: { postgres: [], redis: [] },
    });
    stops.push(servers.stop);
    return servers;
  }
  const setOf = async () => (await kube.get(StatefulSet, nameOf(addon.serviceId), NAMESPACE))!;
  const primary = async () => (await setOf()).spec?.template?.metadata?.annotations?.[PRIMARY];
  const reached = async () => (await kube.get(Service, addon.name, NAMESPACE))?.spec?.selector?.[POD_NAME];
  return { api, kube, deployer, setOf, primary, reached, warnings };
}

type Cluster = Awaited<ReturnType<typeof cluster>>;

/** Pods of an addon, in which servers of this machine run, each at an address of its own. */
async function servers({ api, kube, setOf }: Cluster) {
  const folder = await mkdtemp(join(tmpdir(), "berth-standby-"));
  stops.push(() => rm(folder, { recursive: true, force: true }));
  const hosts = [0, 1].map(() => `127.${randomInt(1, 250)}.${randomInt(1, 250)}.${randomInt(2, 250)}`);
  const { data = {} } = (await kube.get(Secret, replicationName(addon.serviceId), NAMESPACE))!;
  const textOf = (name: string) => Buffer.from(data[name]!, "base64").toString();
  const secret = textOf("password");
  const users = `user default on >${password} ~* &* +@all\n${textOf("users.acl")}`;
  await Promise.all([
    writeFile(join(folder, "users.acl"), users),
    writeFile(join(folder, "redis.conf"), textOf("redis.conf")),
  ]);
  const running = new Map<Ordinal, ChildProcess>();
  const at = (ordinal: Ordinal) => ({ host: hosts[ordinal]!, port: 6379 });
  const says = (ordinal: Ordinal) => readReplication(at(ordinal), secret).catch(() => undefined);

  async function end(ordinal: Ordinal): Promise<void> {
    const server = running.get(ordinal);
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    server.kill("SIGKILL");
    await once(server, "exit");
  }

  /** Records a pod as the cluster does, made from the template of now unless it is there. */
  async function putPod(ordinal: Ordinal, ready: boolean, seconds = 0): Promise<void> {
    const name = podName(addon.serviceId, ordinal);
    const before = await kube.get(Pod, name, NAMESPACE);
    const { metadata, spec } = before ?? (await setOf()).spec!.template;
    const lastTransitionTime = new Date(Date.now() - seconds * 1_000);
    const conditions = [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime }];
    const pod = { metadata: { ...metadata, name }, spec, status: { conditions, podIP: hosts[ordinal] } };
    api.store.put({ ...Pod, namespace: NAMESPACE }, JSON.parse(JSON.stringify(pod)));
  }

  return {
    at,
    says,
    secret,
    putPod,
    end,
    async run(ordinal: Ordinal, primary?: Ordinal): Promise<void> {
      await end(ordinal);
      const own = ["--bind", hosts[ordinal]!, "--dbfilename", `${ordinal}.rdb`, "--save", ""];
      const of = primary === undefined ? [] : ["--replicaof", hosts[primary]!, "6379"];
      const settings = [...own, "--repl-diskless-sync-delay", "0", "--aclfile", "users.acl", ...of];
      running.set(ordinal, spawn(program!, ["redis.conf", ...settings], { cwd: folder, stdio: "ignore" }));
      stops.push(() => end(ordinal));
      await eventually("it answers", async () => {
        const found = await says(ordinal);
        return found && (primary === undefined || found.linked);
      });
      await putPod(ordinal, true);
    },
    /** Sends a command as an app does. */
    command: async (ordinal: Ordinal, ...words: string[]) =>
      (await ask(at(ordinal), [["AUTH", password], words]))[1],
  };
}

/** An addon with a primary, the first one, and a standby in sync. */
async function pair() {
  const made = await cluster();
  const deployer = made.deployer();
  await deployer.ensure(addon, password);
  const both = await servers(made);
  await both.run(0);
  await both.run(1, 0);
  expect(await deployer.ensure(addon, password)).toEqual({ state: "ready" });
  await both.command(0, "SET", "kept", "yes");
  return { ...made, ...both, first: deployer };
}

/** The primary ends, and its pod has not been ready for so long. */
async function lose({ end, putPod, says }: Awaited<ReturnType<typeof pair>>, seconds: number): Promise<void> {
  await end(0);
  await eventually("that is noticed", async () => (await says(1))?.linked === false);
  await putPod(0, false, seconds);
}

withRedis(
  "a primary that is away for long is replaced by its standby, with all it had; one that comes back is not",
  async () => {
    const all = await pair();
    const { first, kube, primary, reached, says, command } = all;
    const before = await kube.get(Pod, podName(addon.serviceId, 0), NAMESPACE);
    expect([await primary(), await reached()]).toEqual(["0", "svc-1-0"]);
    await lose(all, 20);
    expect(await first.ensure(addon, password)).not.toEqual({ state: "ready" });
    expect([await primary(), (await says(1))?.role]).toEqual(["0", "slave"]);
    await all.putPod(0, false, 40);
    expect(await first.ensure(addon, password)).toEqual({ state: "ready" });
    expect([await primary(), await reached(), (await says(1))?.role]).toEqual(["1", "svc-1-1", "master"]);
    expect(await command(1, "GET", "kept")).toBe("yes");
    expect(await kube.get(Pod, podName(addon.serviceId, 0), NAMESPACE)).toBeUndefined();
    expect((await all.setOf()).metadata?.annotations?.[REPLACED]).toBe(before?.metadata?.uid);
    await eventually("it is known", async () => {
      const { running, primary, outdated } = (await first.status(addon))!;
      return running && primary === "svc-1-1" && !outdated;
    });
  },
);

withRedis(
  "a standby that has never had all data does not take over, however long its primary is away",
  async () => {
    const made = await cluster();
    const deployer = made.deployer();
    await deployer.ensure(addon, password);
    const { run, putPod, says } = await servers(made);
    await putPod(0, false, 600);
    await run(1);
    await ask(
      {
        host: (await made.kube.get(Pod, podName(addon.serviceId, 1), NAMESPACE))!.status!.podIP!,
        port: 6379,
      },
      [
        ["AUTH", password],
        ["REPLICAOF", "127.0.0.1", "1"],
      ],
    );
    await eventually("it is a standby", async () => (await says(1))?.role === "slave");
    expect(await deployer.ensure(addon, password)).not.toEqual({ state: "ready" });
    expect([await made.primary(), (await says(1))?.role]).toEqual(["0", "slave"]);
  },
);

test("an addon is not ready while Berth does not reach its servers, and says so", async () => {
  const made = await cluster();
  const deployer = made.deployer();
  await deployer.ensure(addon, password);
  const { putPod } = await servers(made);
  await putPod(0, true);
  await putPod(1, true);
  expect(await deployer.ensure(addon, password)).toMatchObject({
    state: "waiting",
    message: expect.stringContaining("Berth does not reach it"),
  });
  expect(made.warnings).toContainEqual(expect.objectContaining({ serviceId: addon.serviceId }));
  expect(await made.primary()).toBe("0");
});

withRedis("a deployer that is killed anywhere leaves a take-over that another one completes", async () => {
  const killedAt = async (write: number) => {
    const all = await pair();
    const { api, primary, reached, says, first } = all;
    await lose(all, 40);
    let writes = 0;
    let dead = false;
    api.beforeEach(({ verb, plural }) => {
      // What it does first is the same as ever.
      if (WRITES.includes(verb) && (writes > 0 || plural === "statefulsets")) writes++;
      dead ||= writes > write;
      if (dead) throw new Refusal(500, "it is gone");
    });
    await first.ensure(addon, password).catch(() => {});
    const hasEnded = !dead;
    api.beforeEach(() => {});
    // Nothing leads to a standby.
    if ((await reached()) === "svc-1-1") expect((await says(1))?.role).toBe("master");
    expect(await all.deployer().ensure(addon, password)).toEqual({ state: "ready" });
    expect([await primary(), await reached(), (await says(1))?.role]).toEqual(["1", "svc-1-1", "master"]);
    expect(await all.command(1, "GET", "kept")).toBe("yes");
    return hasEnded;
  };
  let write = 0;
  while (!(await killedAt(write))) write++;
  expect(write).toBeGreaterThan(3);
});

withRedis("two deployers at once make one primary", async () => {
  const all = await pair();
  await lose(all, 40);
  const both = [all.first, all.deployer()];
  await Promise.allSettled(both.map((one) => one.ensure(addon, password)));
  expect(await both[1]!.ensure(addon, password)).toEqual({ state: "ready" });
  expect([await all.primary(), await all.reached(), (await all.says(1))?.role]).toEqual([
    "1",
    "svc-1-1",
    "master",
  ]);
});

withRedis(
  "a change restarts the standby, then the servers change places without losing a write, and the other is restarted",
  async () => {
    const all = await pair();
    const { first, kube, primary, reached, says, command } = all;
    const small = { ...addon, size: "small" as const };
    const podOf = (ordinal: Ordinal) => kube.get(Pod, podName(addon.serviceId, ordinal), NAMESPACE);
    await first.ensure(small, password);
    expect([await podOf(1), (await podOf(0)) !== undefined]).toEqual([undefined, true]);
    await all.run(1, 0);
    let written = 0;
    const writing = (async () => {
      for (;;) {
        const done = await command(0, "INCR", "written").catch(() => undefined);
        if (done === undefined) return;
        written = Number(done);
      }
    })();
    expect(await first.ensure(small, password)).toEqual({ state: "ready" });
    await writing;
    expect([await primary(), await reached(), (await says(1))?.role]).toEqual(["1", "svc-1-1", "master"]);
    expect(written).toBeGreaterThan(0);
    expect(Number(await command(1, "GET", "written"))).toBe(written);
    expect(await podOf(0)).toBeUndefined();
    await all.run(0, 1);
    expect(await first.ensure(small, password)).toEqual({ state: "ready" });
    await eventually("nothing is left to do", async () => {
      const status = (await first.status(addon))!;
      return status.size === "small" && status.replicas === 2 && !status.outdated;
    });
  },
);

withRedis(
  "with one server again, the first one is the primary, and the volume of the second one is removed",
  async () => {
    const all = await pair();
    const { api, first, kube, reached, setOf, says, primary } = all;
    await lose(all, 40);
    await first.ensure(addon, password);
    await all.run(0, 1);
    expect(await primary()).toBe("1");
    const volume = { ...PersistentVolumeClaim, namespace: NAMESPACE };
    const labels = { ...labelsOf({ kind: "addon" }), [label("serviceId")]: addon.serviceId };
    api.store.put(volume, { metadata: { name: "data-svc-1-1", labels } });
    const single = { ...addon, replicas: 1 };
    await first.ensure(single, password);
    expect((await says(0))?.role).toBe("master");
    const retention = async () => (await setOf()).spec?.persistentVolumeClaimRetentionPolicy?.whenScaled;
    expect([(await setOf()).spec?.replicas, await primary(), await retention()]).toEqual([
      1,
      undefined,
      "Delete",
    ]);
    // The first one is being started anew meanwhile. As long as the second one is there, nothing leads to it.
    await all.putPod(0, false);
    expect(await reached()).toBe("svc-1-0");
    await first.ensure(single, password);
    expect(await retention()).toBe("Delete");
    api.store.remove(volume, "data-svc-1-1");
    api.store.remove({ ...Pod, namespace: NAMESPACE }, "svc-1-1");
    await eventually("that is known", async () => (await first.status(addon))?.outdated);
    expect(await first.ensure(single, password)).not.toEqual({ state: "ready" });
    expect([await retention(), await reached()]).toEqual(["Retain", undefined]);
    expect(await kube.get(Secret, replicationName(addon.serviceId), NAMESPACE)).toBeUndefined();
    await all.putPod(0, true);
    await eventually("nothing is left to do", async () => {
      const { running, outdated } = (await first.status(addon))!;
      return running && !outdated;
    });
  },
);
