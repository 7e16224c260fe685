import { get } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { installOperator, setInPlaceUpdates } from "../../deploy/cluster/operator.ts";
import { CLUSTER } from "../../services/deployer/addons/kubernetes/cnpg/manifests.ts";
import { addonsForTest, newAddon as newAddonOf } from "../../services/deployer/addons/kubernetes/testing.ts";
import { newPassword } from "../../services/deployer/addons/lifecycle.ts";
import type { Addon, AddonServers } from "../../services/deployer/addons/port.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { nameOf, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { readRun } from "../support/cluster-run.ts";

let images: Awaited<ReturnType<typeof readRun>>["images"];
let cluster: ReturnType<typeof addonsForTest>;

beforeAll(async () => {
  ({ images } = await readRun());
  cluster = addonsForTest();
});
afterAll(async () => {
  await cluster?.stop();
  await setInPlaceUpdates(false);
  await installOperator(images);
});

const newAddon = (replicas: number): Addon => ({ ...newAddonOf("postgres"), engine: "cnpg", replicas });

/** As the reconciler does: what fails while the operator is replaced is tried again. */
const untilReady = (addons: AddonServers, addon: Addon, password: string) =>
  eventually("the addon is ready", async () => {
    const outcome = await addons.ensure(addon, password).catch(() => undefined);
    return outcome?.state === "ready";
  });

/** Waits until so many servers run, each of them ready. */
const untilAllRun = (addons: AddonServers, addon: Addon) =>
  eventually("all servers run", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen.usage[0]?.replicas === (addon.replicas ?? 1);
  });

async function podsOf({ serviceId, environmentId }: Addon) {
  const labels = selector({ [CLUSTER]: nameOf(serviceId), "cnpg.io/podRole": "instance" });
  return (await cluster.kube.list(kinds.Pod, { namespace: cluster.spaceOf(environmentId), labels })).items;
}

/** Waits until the operator's manager has this version in each server of an addon. */
const untilManagedBy = (version: string, addon: Addon) =>
  eventually(
    `all its servers have the manager ${version}`,
    async () => {
      const pods = await podsOf(addon);
      const versions = await Promise.all(pods.map(({ status }) => managerVersion(status?.podIP ?? "")));
      return versions.length === addon.replicas && versions.every((one) => one === version);
    },
    300_000,
  );

function managerVersion(host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const options = { host, port: 8000, path: "/pg/status", rejectUnauthorized: false, timeout: 2_000 };
    const request = get(options, async (response) => {
      const parts = await response.toArray().catch(() => []);
      resolve(/"instanceManagerVersion":"([^"]+)"/.exec(parts.join(""))?.[1]);
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(undefined));
  });
}

/**
 * Holds one connection, and writes numbers over others, each a new one, as apps do. `stop` returns which were confirmed, how
 * long none could be written at most, and whether the first connection is still there.
 */
async function startWriting(addon: Addon, password: string) {
  const namespace = cluster.spaceOf(addon.environmentId);
  const { spec } = (await cluster.kube.get(kinds.Service, addon.name, namespace))!;
  const url = new URL(cluster.keysOf(addon, password).URL);
  url.hostname = spec!.clusterIP!;
  const connect = async () => {
    const client = new pg.Client({
      connectionString: url.href,
      connectionTimeoutMillis: 2_000,
      query_timeout: 2_000,
    });
    client.on("error", () => {});
    return client.connect().then(
      () => client,
      () => undefined,
    );
  };
  const held = await eventually("the network admits this machine", connect);
  let lost = false;
  held.on("end", () => {
    lost = true;
  });
  await held.query("create table written (n int)");
  const confirmed: number[] = [];
  let stopped = false;
  let longestMs = 0;
  let failures = 0;
  async function write(): Promise<void> {
    let last = Date.now();
    for (let n = 1; !stopped; n++) {
      const client = await connect();
      const written =
        client &&
        (await client.query("insert into written values ($1)", [n]).then(
          () => true,
          () => false,
        ));
      client?.end().catch(() => {});
      if (written) {
        confirmed.push(n);
        longestMs = Math.max(longestMs, Date.now() - last);
        last = Date.now();
      } else failures++;
      await delay(20);
    }
  }
  const writing = write();
  return {
    async stop() {
      const before = confirmed.length;
      await eventually("it writes", async () => confirmed.length > before + 5);
      stopped = true;
      await writing;
      const kept = lost
        ? undefined
        : await held.query("select 1").then(
            () => "held",
            () => undefined,
          );
      if (!lost) await held.end();
      return { confirmed, longestMs, failures, held: kept === "held" };
    },
  };
}

/** Collects, until it is called, the states that users see of an addon. */
function watchStates(addons: AddonServers, addon: Addon) {
  const seen: string[] = [];
  let stopped = false;
  async function watch(): Promise<void> {
    while (!stopped) {
      const status = await addons.status(addon);
      const state = status?.running ? "running" : (status?.problem?.state ?? "unknown");
      if (seen.at(-1) !== state) seen.push(state);
      await delay(250);
    }
  }
  const watching = watch();
  return async () => {
    stopped = true;
    await watching;
    return seen;
  };
}

async function ask(addon: Addon, password: string, words: string): Promise<string> {
  const { ok, said } = await cluster.ask(addon, password, words);
  expect([ok, said]).toEqual([true, said]);
  return said;
}

async function expectWritten(addon: Addon, password: string, confirmed: number[]): Promise<void> {
  const kept = new Set((await ask(addon, password, "select n from written")).split("\n").map(Number));
  expect(confirmed.filter((n) => !kept.has(n))).toEqual([]);
}

test("addons of an earlier operator keep their data and keys through its upgrade, and follow changes afterwards", async () => {
  await installOperator(images, "cloudnative-pg-earlier");
  const { run, store, archive } = await cluster.startArchive();
  const addons = cluster.openEngines("cnpg", {
    ...{ copies: { image: `${run.registry.pull}/${run.images.platform}`, store } },
    ...archive,
  });
  const password = newPassword();
  const [single, pair] = [newAddon(1), newAddon(2)];
  for (const addon of [single, pair]) {
    await cluster.ensureNamespace(addon);
    await cluster.admitThisMachine(addon.environmentId);
  }
  await Promise.all([single, pair].map((addon) => untilReady(addons, addon, password)));
  await Promise.all([single, pair].map((addon) => untilAllRun(addons, addon)));
  await cluster.admitCopies(single);
  await ask(single, password, "create table notes as select 'first' as text");
  const past = async () => {
    const found = await addons.backups.pointInTime(single);
    return "reason" in found ? {} : found;
  };
  await eventually("the first base backup is there", async () => (await past()).from);

  const writers = await Promise.all([single, pair].map((addon) => startWriting(addon, password)));
  const watched = [single, pair].map((addon) => watchStates(addons, addon));
  const version = await installOperator(images);
  await Promise.all([single, pair].map((addon) => untilManagedBy(version, addon)));
  await Promise.all([single, pair].map((addon) => untilAllRun(addons, addon)));
  for (const [index, addon] of [single, pair].entries()) {
    const { confirmed, longestMs } = await writers[index]!.stop();
    console.log(`with ${addon.replicas}, nothing could be written for ${longestMs} ms`);
    const states = await watched[index]!();
    expect([states[0], states.at(-1)]).toEqual(["running", "running"]);
    expect(states).toContain("starting");
    expect(states).not.toContain("crashed");
    await expectWritten(addon, password, confirmed);
  }

  const next = newPassword();
  await untilReady(addons, { ...single, generation: 1 }, next);
  expect(await ask(single, next, "select text from notes")).toBe("first");
  expect((await cluster.ask(single, password, "select 1")).said).toContain("password authentication failed");
  const { signal } = new AbortController();
  await eventually("it archives", async () => (await past()).failure === undefined);
  await addons.backups.make(single, next, "backups/later", signal, new Date());
  await ask(single, next, "delete from notes");
  await addons.backups.restore(
    single,
    next,
    { key: "backups/later", foreign: false, uploaded: false },
    signal,
  );
  expect(await ask(single, next, "select text from notes")).toBe("first");
  const larger = { ...single, generation: 1, size: "small" as const, replicas: 2 };
  await untilReady(addons, larger, next);
  await eventually("its servers have the other size", async () => {
    const pods = await podsOf(single);
    const sized = pods.filter(({ spec }) => spec?.containers[0]?.resources?.limits?.memory === "512Mi");
    return pods.length === 2 && sized.length === 2;
  });
  await untilAllRun(addons, larger);
  expect(await ask(single, next, "select text from notes")).toBe("first");
  await untilReady(addons, { ...pair, replicas: 1 }, password);
  await eventually("one server is left", async () => (await podsOf(pair)).length === 1);
  for (const addon of [single, pair]) await addons.remove(addon);
}, 1_200_000);

test("where the operator updates its manager in place, its upgrade ends no connection", async () => {
  await setInPlaceUpdates(true);
  await installOperator(images, "cloudnative-pg-earlier");
  const addons = cluster.openEngines("cnpg");
  const [addon, password] = [newAddon(1), newPassword()];
  await cluster.ensureNamespace(addon);
  await cluster.admitThisMachine(addon.environmentId);
  await untilReady(addons, addon, password);
  await untilAllRun(addons, addon);
  const before = await podsOf(addon);
  const writer = await startWriting(addon, password);
  const watched = watchStates(addons, addon);
  const version = await installOperator(images);
  await untilManagedBy(version, addon);
  const { confirmed, ...rest } = await writer.stop();
  expect(rest).toMatchObject({ failures: 0, held: true });
  expect(await watched()).toEqual(["running"]);
  const uids = (pods: typeof before) => pods.map(({ metadata }) => metadata?.uid);
  expect(uids(await podsOf(addon))).toEqual(uids(before));
  await expectWritten(addon, password, confirmed);
  const next = newPassword();
  await untilReady(addons, { ...addon, generation: 1 }, next);
  await expectWritten(addon, next, confirmed);
  await untilReady(addons, { ...addon, generation: 1, replicas: 2 }, next);
  await untilAllRun(addons, { ...addon, replicas: 2 });
  await addons.remove(addon);
}, 900_000);
