import { EventEmitter, once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readRun } from "../../../../../test/support/cluster-run.ts";
import { canMakeSmallVolumes, makeSmallVolume } from "../../../../../test/support/small-volume.ts";
import { newId } from "../../../../kit/ids.ts";
import { openProxy } from "../../../../kit/testing/proxy.ts";
import { fillDisk } from "../../../../kit/testing/small-disk.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, selector } from "../../../kube/names.ts";
import { addonName } from "../../keys.ts";
import { newPassword } from "../../lifecycle.ts";
import type { Addon, AddonOutcome } from "../../port.ts";
import { encrypt, logIn } from "../../tunnels/postgres-login.ts";
import { provePooler } from "../pooler/testing.ts";
import { addonsForTest, newAddon as newAddonOf, RESTART_MS, REWRITING } from "../testing.ts";
import { CLUSTER } from "./manifests.ts";

const changes = new EventEmitter();
let cluster: ReturnType<typeof addonsForTest>;
let addons: ReturnType<typeof open>;

function open(engine: "cnpg" | "statefulset" | "auto" = "cnpg") {
  const engines = cluster.openEngines(engine);
  engines.watch((serviceId) => changes.emit(serviceId));
  return engines;
}

beforeAll(() => {
  cluster = addonsForTest();
  addons = open();
});
afterAll(() => cluster?.stop());

const newAddon = (environmentId?: string): Addon => ({
  ...newAddonOf("postgres", environmentId),
  engine: "cnpg",
});

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

async function podsOf({ serviceId, environmentId }: Addon) {
  const labels = selector({ [CLUSTER]: nameOf(serviceId), "cnpg.io/podRole": "instance" });
  const { items } = await cluster.kube.list(kinds.Pod, { namespace: cluster.spaceOf(environmentId), labels });
  return items.filter(({ metadata }) => !metadata?.deletionTimestamp);
}

const WRITE = "create table kept as select 'yes' as n";
const READ = "select n from kept";

test.concurrent("an addon answers to the keys it publishes, keeps its data, and is gone with it when it is deleted", async () => {
  const [addon, password] = [newAddon(), newPassword()];
  const namespace = cluster.spaceOf(addon.environmentId);
  await until("ready", addon, password);
  expect(cluster.keysOf(addon, password).HOST).toBe(`${addon.name}.${namespace}.svc`);
  expect(await cluster.ask(addon, password, WRITE)).toMatchObject({ ok: true });
  expect((await cluster.ask(addon, newPassword(), READ)).said).toContain("password authentication failed");
  const elsewhere = await cluster.ask(addon, password, READ, newId("env"));
  expect(elsewhere.ok).toBe(false);
  expect(elsewhere.said).not.toContain("yes");
  const running = await eventually("it runs", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen;
  });
  expect(running).toMatchObject({ size: "nano", usage: [{ replicas: 1, size: "nano" }] });

  const [before] = await podsOf(addon);
  const secrets = await cluster.kube.list(kinds.Secret, { namespace });
  for (const object of [before, ...secrets.items]) {
    expect(JSON.stringify(object)).not.toContain(password);
    expect(JSON.stringify(object)).not.toContain(Buffer.from(password).toString("base64"));
  }
  await cluster.kube.remove(kinds.Pod, before!.metadata!.name!, namespace);
  await eventually("another server runs", async () => {
    const [now] = await podsOf(addon);
    return now && now.metadata?.uid !== before?.metadata?.uid && (await addons.status(addon))?.running;
  });
  expect(await cluster.ask(addon, password, READ)).toEqual({ ok: true, said: "yes" });

  expect(await cluster.leftOf(addon)).toEqual(
    expect.arrayContaining(["Cluster", "NetworkPolicy", "PersistentVolumeClaim", "Pod", "Secret", "Service"]),
  );
  await addons.remove(addon);
  await addons.remove(addon);
  await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
});

test.concurrent("a new password ends the old one and no server, and an older one is never brought back", async () => {
  const [addon, old, next] = [newAddon(), newPassword(), newPassword()];
  await until("ready", addon, old);
  expect(await cluster.ask(addon, old, WRITE)).toMatchObject({ ok: true });
  const before = await podsOf(addon);
  const now = { ...addon, generation: 1 };
  await until("ready", now, next);
  expect(await cluster.ask(addon, next, READ)).toEqual({ ok: true, said: "yes" });
  expect((await cluster.ask(addon, old, READ)).said).toContain("password authentication failed");
  const uidsOf = (pods: typeof before) =>
    pods.map(({ metadata, status }) => [metadata?.uid, status?.containerStatuses?.[0]?.restartCount]);
  expect(uidsOf(await podsOf(addon))).toEqual(uidsOf(before));
  await expect(addons.ensure(addon, old)).rejects.toThrow(/newer password/);
});

test.concurrent("another size is other resources", async () => {
  const [addon, password] = [newAddon(), newPassword()];
  await until("ready", addon, password);
  const before = await eventually("it runs", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen;
  });
  const small = { ...addon, size: "small" as const };
  await until("ready", small, password);
  const after = await eventually("its pod has other resources", async () => {
    const [pod] = await podsOf(addon);
    const seen = await addons.status(addon);
    return pod?.spec?.containers[0]?.resources?.limits?.memory === "512Mi" && seen?.running && seen;
  });
  expect(after).toMatchObject({ size: "small", usage: [{ replicas: 1, size: "small" }] });
  expect(after.usage[0]!.at).toBeGreaterThan(before.usage[0]!.at);
  expect((await cluster.ask(small, password, "show shared_buffers")).said).toBe("128MB");
});

test.concurrent("an addon keeps the engine that it was made with, whatever new ones have", async () => {
  const [sets, auto, password] = [open("statefulset"), open("auto"), newPassword()];
  expect(await sets.postgresEngine()).toBeUndefined();
  expect(await auto.postgresEngine()).toBe("cnpg");
  const old = { ...newAddon(), engine: undefined };
  await until("ready", old, password, sets);
  await until("ready", old, password, auto);
  const young = newAddon(old.environmentId);
  await until("ready", young, password, auto);
  expect(await cluster.leftOf(old)).not.toContain("Cluster");
  expect(await cluster.leftOf(young)).not.toContain("StatefulSet");
  await eventually("both are listed", async () => {
    const listed = (await auto.list()).filter(({ running }) => running).map(({ serviceId }) => serviceId);
    return [old, young].every(({ serviceId }) => listed.includes(serviceId));
  });
  // Where it is turned off again, its data is neither replaced nor forgotten.
  expect(await sets.ensure(young, password)).toMatchObject({
    state: "failed",
    message: expect.stringContaining("turns off"),
  });
  await expect(sets.remove(young)).rejects.toThrow("turns off");
  for (const addon of [old, young]) {
    await auto.remove(addon);
    await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
  }
});

test.concurrent("two deployers that make an addon at once make one, and a third finds it", async () => {
  const [addon, password, second] = [newAddon(), newPassword(), open()];
  const both = () => Promise.allSettled([addons.ensure(addon, password), second.ensure(addon, password)]);
  for (let round = 0; round < 3; round++) await both();
  await until("ready", addon, password);
  await until("ready", addon, password, second);
  expect(await podsOf(addon)).toHaveLength(1);
  const third = open();
  expect(await third.status(addon)).toMatchObject({ serviceId: addon.serviceId, running: true });
  const { serviceId, type, engine } = addon;
  await third.remove({ serviceId, type, engine });
  await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
});

test.concurrent("a server moves to a newer patch release, with its data, and once", async () => {
  const [image, newer] = await Promise.all(["18.1", "18.2"].map((tag) => cluster.tagPostgres(tag)));
  const [addon, password] = [newAddon(), newPassword()];
  await until("ready", addon, password, cluster.openEngines("cnpg", { images: [image!] }));
  expect(await cluster.ask(addon, password, WRITE)).toMatchObject({ ok: true });
  const patchImages = { postgres: [newer!], redis: [] };
  const next = cluster.openEngines("cnpg", { images: [newer!], patchImages, patchAfterMs: 0 });
  await eventually("it is its turn", async () => (await next.status(addon))?.outdated);
  await until("ready", addon, password, next);
  await eventually("it serves with the newer image", async () => {
    const [pod] = await podsOf(addon);
    const seen = await next.status(addon);
    return pod?.spec?.containers[0]?.image === newer && seen?.running && !seen.outdated;
  });
  expect(await cluster.ask(addon, password, READ)).toEqual({ ok: true, said: "yes" });
});

test.concurrent("an image that cannot be pulled, or is none for the operator, is reported", async () => {
  const [addon, password] = [newAddon(), newPassword()];
  const wrong = cluster.openEngines("cnpg", { images: [`${cluster.images.postgres}-none`] });
  expect(await until("failed", addon, password, wrong)).toMatchObject({
    message: expect.stringMatching(/The server's image, .*-none, cannot be pulled/),
  });
  await wrong.remove(addon);
  const unnumbered = cluster.openEngines("cnpg", { images: ["example.test/postgres:newest"] });
  expect(await until("failed", newAddon(addon.environmentId), password, unnumbered)).toMatchObject({
    message: expect.stringContaining("The cluster refuses the server"),
  });
});

/** Writes numbers until it could write again after it could not, and says which were confirmed. */
const WRITER = `last=0; most=100000
while :; do
  seq $((last + 1)) $((last + most)) | sed 's/.*/insert into written values (&);\\n\\\\echo &/' |
    psql "$URL?connect_timeout=5&keepalives_idle=2&keepalives_interval=1&keepalives_count=3" \
      -v ON_ERROR_STOP=1 -qAt > /tmp/confirmed 2> /dev/null && { cat /tmp/confirmed; exit 0; }
  cat /tmp/confirmed
  # Whether the next one was written is not known.
  [ ! -s /tmp/confirmed ] || { last=$(($(tail -n 1 /tmp/confirmed) + 1)); most=20; }
done`;

test.concurrent("a standby takes over from a primary that dies under load, and has all that was confirmed", async () => {
  const [addon, password] = [{ ...newAddon(), replicas: 2 }, newPassword()];
  const namespace = cluster.spaceOf(addon.environmentId);
  await until("ready", addon, password);
  const replicated = await eventually("both servers run", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen.usage[0]?.replicas === 2 && seen;
  });
  expect(replicated).toMatchObject({ replicas: 2, engine: "cnpg" });
  await eventually("commits wait for the standby", async () => {
    return (await cluster.ask(addon, password, "show synchronous_standby_names")).said.startsWith("ANY 1");
  });
  expect(await cluster.ask(addon, password, "create table written (n int)")).toMatchObject({ ok: true });
  const writing = cluster.inPod(addon.environmentId, cluster.images.postgres, WRITER, {
    URL: cluster.keysOf(addon, password).URL,
  });
  const count = async () => Number((await cluster.ask(addon, password, "select count(*) from written")).said);
  await eventually("numbers are written", async () => (await count()) > 20);
  const primaryOf = async () =>
    (await cluster.kube.get(kinds.PostgresCluster, nameOf(addon.serviceId), namespace))?.status
      ?.currentPrimary;
  const before = (await primaryOf())!;
  await cluster.kube.remove(kinds.Pod, before, namespace, { gracePeriodSeconds: 0 });
  const { ok, said } = await writing;
  expect(ok).toBe(true);
  expect(await primaryOf()).not.toBe(before);
  const confirmed = said.split("\n");
  expect(confirmed.length).toBeGreaterThan(40);
  const kept = (await cluster.ask(addon, password, "select distinct n from written")).said.split("\n");
  expect(confirmed.filter((n) => !kept.includes(n))).toEqual([]);
  await eventually("both servers run again", async () => {
    const seen = await addons.status(addon);
    return seen?.running && seen.usage[0]?.replicas === 2;
  });

  const single = { ...addon, replicas: 1 };
  await until("ready", single, password);
  await eventually("one is left, with its volume", async () => {
    const kindsLeft = await cluster.leftOf(addon);
    return ["Pod", "PersistentVolumeClaim"].every(
      (kind) => kindsLeft.filter((one) => one === kind).length === 1,
    );
  });
  expect(await addons.status(single)).toMatchObject({ running: true, replicas: 1, usage: [{ replicas: 1 }] });
});

test.concurrent("a moment between two writes is restored, and its archive goes with the addon", async () => {
  const { run, store, archive, archived } = await cluster.startArchive();
  const own = cluster.openEngines("cnpg", {
    ...{ copies: { image: `${run.registry.pull}/${run.images.platform}`, store } },
    ...archive,
  });
  const [addon, password] = [newAddon(), newPassword()];
  expect(own.backups.noArchive(addon)).toBeUndefined();
  await until("ready", addon, password, own);
  await cluster.admitCopies(addon);
  const ask = async (words: string) => {
    const { ok, said } = await cluster.ask(addon, password, words);
    expect([ok, said]).toEqual([true, said]);
    return said;
  };
  await ask("create table notes (text text)");
  const { from } = await eventually("the first base backup is there", async () => {
    const found = await own.backups.pointInTime(addon);
    return !("reason" in found) && found.from && found;
  });
  await ask("insert into notes values ('first')");
  const at = new Date(
    await ask("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"),
  );
  expect(at > from!).toBe(true);
  await ask("delete from notes; create table later (n int)");
  const { signal } = new AbortController();
  await own.backups.make(addon, password, "backups/moment", signal, at);
  expect(await ask("select count(*) from notes")).toBe("0");
  await own.backups.restore(
    addon,
    password,
    { key: "backups/moment", foreign: false, uploaded: false },
    signal,
  );
  expect(await ask("select text, to_regclass('later') is null from notes")).toBe("first|t");
  // Nothing was written since: what the addon has now is the data of this moment too.
  await own.backups.make(addon, password, "backups/now", signal, new Date());
  await own.backups.restore(addon, password, { key: "backups/now", foreign: false, uploaded: false }, signal);
  expect(await ask("select text from notes")).toBe("first");
  expect(await archived(addon)).toBeGreaterThan(0);
  await own.remove(addon);
  await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
  expect(await archived(addon)).toBe(0);
}, 900_000);

test.concurrent("while the bucket of its archive is away, an addon serves and keeps what it has to archive", async ({
  onTestFinished,
}) => {
  const { objectStore, network } = await readRun();
  const bucket = await openProxy(new URL(objectStore.endpoint), network.host);
  onTestFinished(() => bucket.shut());
  const { run, store, archive } = await cluster.startArchive(`http://${network.host}:${bucket.port}`);
  const own = cluster.openEngines("cnpg", {
    ...{ copies: { image: `${run.registry.pull}/${run.images.platform}`, store } },
    ...archive,
  });
  const [addon, password] = [newAddon(), newPassword()];
  await until("ready", addon, password, own);
  await cluster.admitCopies(addon);
  const ask = async (words: string) => {
    const { ok, said } = await cluster.ask(addon, password, words);
    expect([ok, said]).toEqual([true, said]);
    return said;
  };
  await ask("create table notes (text text)");
  const past = async () => {
    const found = await own.backups.pointInTime(addon);
    return "reason" in found ? {} : found;
  };
  await eventually("the first base backup is there", async () => (await past()).from);
  bucket.shut();
  await ask("insert into notes values ('meanwhile')");
  const at = new Date(
    await ask("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"),
  );
  await eventually("it says that nothing is archived", async () => (await past()).failure);
  await ask("delete from notes");
  expect(await own.status(addon)).toMatchObject({ running: true });
  await bucket.open();
  await eventually("it archives again", async () => (await past()).failure === undefined);
  const { signal } = new AbortController();
  await own.backups.make(addon, password, "backups/meanwhile", signal, at);
  await own.backups.restore(
    addon,
    password,
    { key: "backups/meanwhile", foreign: false, uploaded: false },
    signal,
  );
  expect(await ask("select text from notes")).toBe("meanwhile");
}, 900_000);

test.concurrent("the client of a tunnel is logged in to its server, through an encrypted connection", async ({
  onTestFinished,
}) => {
  const [addon, password] = [newAddon(), newPassword()];
  await until("ready", addon, password);
  await cluster.admitThisMachine(addon.environmentId);
  const [pod] = await podsOf(addon);
  const signal = AbortSignal.timeout(60_000);
  async function join(client: Socket): Promise<void> {
    const server = connect(5432, pod!.status!.podIP!);
    await once(server, "connect", { signal: AbortSignal.timeout(5_000) });
    const encrypted = await encrypt(server, signal);
    const accepts = (given: string) => given === "of the tunnel";
    if (await logIn(client, encrypted, { password, accepts }, signal))
      await pipeline(client, encrypted, client);
  }
  const listener = createServer((client) => {
    join(client).catch(() => client.destroy());
  });
  onTestFinished(() => void listener.close());
  await once(listener.listen(0, "127.0.0.1"), "listening");
  const { port } = listener.address() as AddressInfo;
  const name = addonName(addon.serviceId);
  const login = { user: name, database: name, password: "of the tunnel" };
  const client = await eventually("the network admits this machine", async () => {
    const next = new pg.Client({ host: "127.0.0.1", port, ...login });
    return next.connect().then(
      () => next,
      () => undefined,
    );
  });
  const { rows } = await client.query(
    "select ssl, current_user as user from pg_stat_ssl where pid = pg_backend_pid()",
  );
  expect(rows).toEqual([{ ssl: true, user: name }]);
  await client.end();
});

test.concurrent("an addon with a pooler admits more clients than its server, with the password of the server", async () => {
  await provePooler(cluster, addons, newAddon());
});

test.concurrent("a backup is made, proved and restored as of any other PostgreSQL addon", async () => {
  const { run, store } = await cluster.startStore();
  const own = cluster.openEngines("cnpg", {
    copies: { image: `${run.registry.pull}/${run.images.platform}`, store },
  });
  const [addon, password] = [newAddon(), newPassword()];
  await until("ready", addon, password, own);
  await cluster.admitCopies(addon);
  const ask = async (words: string) => (await cluster.ask(addon, password, words)).said;
  await ask("create table notes as select 'first' as text; create view all_notes as select * from notes");
  const { signal } = new AbortController();
  expect(await own.backups.make(addon, password, "backups/one", signal)).toEqual({
    version: expect.stringMatching(/^\d+\.\d+/),
  });
  expect(await own.backups.prove(addon, "backups/one", signal)).toEqual({ counted: 1 });
  await ask("insert into notes values ('second'); create table later (n int)");
  await own.backups.restore(addon, password, { key: "backups/one", foreign: false, uploaded: false }, signal);
  expect(await ask("select text, to_regclass('later') is null from all_notes")).toBe("first|t");
  // Its next password still comes in.
  const next = newPassword();
  await until("ready", { ...addon, generation: 1 }, next, own);
  expect((await cluster.ask(addon, next, "select count(*) from notes")).said).toBe("1");
});

test.concurrent("the data of a StatefulSet's addon comes over whole, as a fork takes it", async () => {
  const { run, store } = await cluster.startStore();
  const own = cluster.openEngines("cnpg", {
    copies: { image: `${run.registry.pull}/${run.images.platform}`, store },
  });
  const [old, password] = [{ ...newAddon(), engine: undefined }, newPassword()];
  const young = newAddon(old.environmentId);
  await Promise.all([until("ready", old, password, own), until("ready", young, password, own)]);
  await cluster.admitCopies(old);
  const made = `create table rows (id bigserial primary key, text text unique, at timestamptz, part numeric(20, 6));
    insert into rows (text, at, part)
      select md5(g::text) || E'\n\\.\t' || chr(233 + g % 100), now() - g * interval '1 s', g / 7.0
      from generate_series(1, 5000) g;
    delete from rows where id % 10 = 0;
    create materialized view sums as select sum(part) from rows`;
  expect(await cluster.ask(old, password, made)).toMatchObject({ ok: true });
  const { signal } = new AbortController();
  await own.backups.make(old, password, "backups/old", signal);
  await own.backups.restore(young, password, { key: "backups/old", foreign: true, uploaded: false }, signal);
  const checksum = `select count(*), md5(string_agg(rows::text, ',' order by id)), nextval('rows_id_seq'), (select * from sums)
    from rows`;
  const before = await cluster.ask(old, password, checksum);
  expect(before).toMatchObject({ ok: true, said: expect.stringMatching(/^4500\|.*\|5001\|/) });
  expect(await cluster.ask(young, password, checksum)).toEqual(before);
});

const withSmallVolumes = test.skipIf(
  !(await canMakeSmallVolumes("Tests of full volumes of CloudNativePG are")),
);

withSmallVolumes.concurrent(
  "an addon whose volume is full says so, and serves again with all its data once the volume is larger",
  async ({ onTestFinished }) => {
    const volume = await makeSmallVolume(cluster.kube);
    onTestFinished(volume.remove);
    const own = cluster.openEngines("cnpg", { storage: { size: "1Gi", className: volume.className } });
    const [addon, password] = [{ ...newAddon(), storageGib: 1 }, newPassword()];
    await until("ready", addon, password, own);
    expect(await cluster.ask(addon, password, WRITE)).toMatchObject({ ok: true });

    fillDisk(volume.path, 60 * 1024 ** 2);
    await cluster.fillVolume(addon, password, async () => {
      const problem = (await own.status(addon))?.problem;
      return problem?.state === "degraded" && problem.message.includes("The volume is full");
    });
    await until("failed", addon, password, own);
    expect(await own.cannotGrow(addon, 2)).toBeUndefined();

    const larger = { ...addon, storageGib: 2 };
    await own.ensure(larger, password);
    await volume.grow(cluster.spaceOf(addon.environmentId));
    await until("ready", larger, password, own, RESTART_MS);
    expect(await cluster.ask(addon, password, READ)).toEqual({ ok: true, said: "yes" });
    expect(await cluster.ask(addon, password, "insert into kept values ('more')")).toMatchObject({
      ok: true,
    });
    expect(await own.status(larger)).toMatchObject({ running: true, storageGib: 2 });
    await own.remove(addon);
  },
  900_000,
);

withSmallVolumes.concurrent(
  "what is written again and again does not fill a small volume",
  async ({ onTestFinished }) => {
    const volume = await makeSmallVolume(cluster.kube);
    onTestFinished(volume.remove);
    const own = cluster.openEngines("cnpg", { storage: { size: "1Gi", className: volume.className } });
    const [addon, password] = [newAddon(), newPassword()];
    await until("ready", addon, password, own);
    expect(await cluster.ask(addon, password, REWRITING)).toEqual({ ok: true, said: "" });
    await own.remove(addon);
  },
  900_000,
);
