import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Job, Namespace, Pod, Secret } from "../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { refusal } from "../support/door.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { connectKubectl } from "./kubectl.ts";

type Backup = {
  id: string;
  status: string;
  sizeBytes?: number;
  version?: string;
  failure?: string;
  provedAt?: string;
  proofFailure?: string;
};
type Addon = {
  id: string;
  status: string;
  backups: { restore?: { status: string; failure?: string } };
  capabilities: { versions: string[] };
  server?: { version?: string; storageBytes?: number };
};

let world: Platform;
let kube: Kube;

beforeAll(async () => {
  world = await openPlatform();
  kube = connectKube();
});
afterAll(() => world?.stop());

/** An addon, with what a user sees of it and of its data. */
async function addon(type: "postgres" | "redis", config: object = {}) {
  const { E, S: at, environmentId } = await world.environment();
  const S = at("store");
  await world.must("POST", `${E}/services`, { name: "store", type, config });
  const show = () => world.must<Addon>("GET", S);
  await eventually("the addon runs", async () => (await show()).status === "running");
  await world.must("POST", `${E}/variables`, {
    name: "STORE",
    connection: { service: "store", key: "URL" },
  });
  const { id } = await show();

  /** Runs a command beside the server, as who has the addon's URL, and returns what it writes. The password is no argument. */
  async function ran(command: string, serviceId = id): Promise<string> {
    const pod = await eventually("its pod runs", async () => {
      const { items } = await kube.list(Pod, { labels: selector({ [label("service")]: serviceId }) });
      const ready = items[0]?.status?.conditions?.some(
        (one) => one.type === "Ready" && one.status === "True",
      );
      return ready && !items[0]?.metadata?.deletionTimestamp && items[0]?.metadata;
    });
    const { value } = await eventually("its keys are published", async () => {
      const { status, body } = await world.call<{ value: string }>("POST", `${E}/variables/STORE/reveal`);
      return status === 200 && body;
    });
    const url = new URL(value);
    url.hostname = "127.0.0.1";
    const script = `export PGOPTIONS='-c statement_timeout=0 -c default_transaction_read_only=off'; PATH="$(echo /usr/lib/postgresql/*/bin):$PATH"; STORE='${url}'; export REDISCLI_AUTH='${url.password}'; ${command} 2>&1`;
    const where = ["-n", pod.namespace!, pod.name!];
    const { send } = await connectKubectl();
    return (await send(script, "exec", "-i", ...where, "--", "sh", "-s")).trim();
  }
  const untilEnded = (id: string) =>
    eventually("the backup has ended", async () => {
      // The deployer may be away.
      const { status, body } = await world.call<Backup>("GET", `${S}/backups/${id}`);
      return status === 200 && body.status !== "running" && body;
    });
  return {
    ...{ id, S, E, at, environmentId, show, ran, untilEnded },
    backUp: async () => untilEnded((await world.must<Backup>("POST", `${S}/backups`)).id),
    async restore(backup: string) {
      await world.must("POST", `${S}/restore`, { backup, confirmImpact: true });
      return eventually("the restore has ended", async () => {
        const { restore } = (await show()).backups;
        return restore?.status !== "running" && restore;
      });
    },
    /** What a copy has left in the namespace of the environment. */
    async leftovers() {
      const labels = selector({ [label("environment")]: environmentId, [label("kind")]: "copy" });
      const pages = await Promise.all([kube.list(Job, { labels }), kube.list(Pod, { labels })]);
      const [home] = (
        await kube.list(Namespace, { labels: selector({ [label("environment")]: environmentId }) })
      ).items;
      const secrets = await kube.listMetadata(Secret, {
        namespace: home!.metadata!.name!,
        labels: selector({ [label("environment")]: environmentId }),
      });
      // The proof of the night may be of this addon.
      const isCopy = (name = "") => !/-proof(?:-|$)/.test(name);
      const names = pages.flatMap(({ items }) => items.map(({ metadata }) => metadata?.name)).filter(isCopy);
      return [...names, ...secrets.map(({ name }) => name).filter((name) => name?.endsWith("-copy"))];
    },
  };
}

describe("a postgres addon", () => {
  let db: Awaited<ReturnType<typeof addon>>;
  beforeAll(async () => {
    db = await addon("postgres");
  });
  const query = (text: string) => db.ran(`psql "$STORE" -XAtq -v ON_ERROR_STOP=1 -c "${text}"`);

  test("has the rows of its backup after a restore, and none that were written later", async () => {
    await query("create table notes (id int primary key, text text); insert into notes values (1, 'first')");
    await query("create type mood as enum ('good'); create view moods as select 'good'::mood");
    await query("create schema own; create table own.things (n int); select lo_from_bytea(4711, 'large')");
    const backup = await db.backUp();
    expect(backup).toMatchObject({ status: "succeeded", version: expect.stringMatching(/^\d+\.\d+$/) });
    expect(backup.sizeBytes).toBeGreaterThan(0);
    await expect.poll(db.leftovers).toEqual([]);
    await query("insert into notes values (2, 'second'); create table later (note int references notes)");
    await query("drop schema own cascade; select lo_unlink(4711)");
    // What an app has set for its own statements does not end those of a restore.
    await query("alter role current_user set statement_timeout = '1ms'");
    await query("alter role current_user set default_transaction_read_only = on");
    expect(await db.restore(backup.id)).toMatchObject({ status: "succeeded" });
    expect(await query("select * from notes")).toBe("1|first");
    expect(await query("select to_regclass('later') is null, count(*) from own.things, moods")).toBe("t|0");
    expect(await query("select convert_from(lo_get(4711), 'UTF8')")).toBe("large");
    expect(await query("insert into notes values (3, 'third') returning id")).toBe("3");
    await expect.poll(db.leftovers).toEqual([]);
  });

  test("gives its data to another one, which owns what it gets", async () => {
    const backup = await db.backUp();
    const other = await addon("postgres");
    await other.ran(`psql "$STORE" -qc "create table tried (n int)"`);
    expect(await other.restore(backup.id)).toMatchObject({ status: "succeeded" });
    const asked =
      "insert into notes values (5, 'theirs'); select to_regclass('tried') is null, count(*) from notes";
    expect(await other.ran(`psql "$STORE" -XAtq -v ON_ERROR_STOP=1 -c "${asked}"`)).toBe("t|3");
    expect(await query("select count(*) from notes")).toBe("2");
  });

  test("moves to a newer version, by a fork that takes its place", async () => {
    const old = await addon("postgres", { version: "15" });
    const { capabilities, server } = await old.show();
    expect(capabilities.versions).toEqual(["18", "15"]);
    expect(server).toEqual({ version: "15", storageBytes: 1024 ** 3 });
    await old.ran(`psql "$STORE" -qc "create table notes as select 'kept' as text"`);
    const larger = await world.call("PATCH", old.S, { config: { storageGib: 2 } });
    expect(refusal(larger)).toBe("422 not_supported_here");
    const from = { service: old.id };
    const config = { version: "18", storageGib: 2 };
    const next = old.at("next");
    const made = { name: "next", type: "postgres", from, config };
    const { id } = await world.must<Addon>("POST", `${old.E}/services`, made);
    await eventually("it has the data", async () => {
      const { status, backups } = await world.must<Addon>("GET", next);
      expect(backups.restore?.failure).toBeUndefined();
      return status === "running" && backups.restore?.status === "succeeded";
    });
    expect(await world.must<Addon>("GET", next)).toMatchObject({
      server: { version: "18", storageBytes: 2 * 1024 ** 3 },
    });
    await world.must("POST", `${next}/promote`, { over: "store" });
    await eventually("its keys are those of the new one", async () => {
      const { value } = await world.must<{ value: string }>("POST", `${old.E}/variables/STORE/reveal`);
      return new URL(value).hostname.startsWith("next.");
    });
    const asked = "select text, current_setting('server_version_num')::int / 10000 from notes";
    expect(await old.ran(`psql "$STORE" -XAtc "${asked}"`, id)).toBe("kept|18");
    const { data } = await world.must<{ data: { message: string }[] }>("GET", `${old.S}/logs`);
    expect(data.some(({ message }) => message.includes("ready to accept connections"))).toBe(true);
  });

  test("keeps its rows where a restore fails, and says why", async () => {
    await query(
      "create function fails(int) returns boolean language plpgsql immutable as \\$\\$ begin if current_setting('application_name') = 'psql' and \\$1 > 100 then raise 'no'; end if; return true; end \\$\\$",
    );
    await query("create table checked (n int check (fails(n)))");
    await query("set application_name = 'other'; insert into checked values (200)");
    const backup = await db.backUp();
    expect(backup.status).toBe("succeeded");
    await query("delete from checked; insert into notes values (9, 'kept')");
    expect(await db.restore(backup.id)).toMatchObject({ status: "failed", failure: expect.any(String) });
    expect(await query("select text from notes where id = 9")).toBe("kept");
    await query("drop table checked");
  });

  test("is backed up also when the deployer is killed meanwhile", async () => {
    await query(
      "create table large as select n, repeat(md5(n::text), 30) as text from generate_series(1, 100000) n",
    );
    const { id } = await world.must<Backup>("POST", `${db.S}/backups`);
    await eventually("its Job is there", async () => (await db.leftovers()).length > 0);
    const { namespace } = inject("platform")!;
    const deployers = await kube.list(Pod, { namespace, labels: "app.kubernetes.io/component=deployer" });
    for (const { metadata } of deployers.items)
      await kube.remove(Pod, metadata!.name!, namespace, { gracePeriodSeconds: 0 });
    expect(await db.untilEnded(id)).toMatchObject({ status: "succeeded" });
    await eventually("the API answers", async () => (await world.call("GET", db.S)).status === 200);
    await eventually("nothing is left of it", async () => (await db.leftovers()).length === 0);
    await query("drop table large");
    expect(await db.restore(id)).toMatchObject({ status: "succeeded" });
    expect(await query("select count(*) from large")).toBe("100000");
  });
});

test("a redis addon has the keys of its backup after a restore, also when its server starts again", async () => {
  const store = await addon("redis");
  const cli = (command: string) => store.ran(`redis-cli ${command}`);
  expect(await cli("set first 1")).toBe("OK");
  const backup = await store.backUp();
  expect(backup).toMatchObject({ status: "succeeded", version: expect.stringMatching(/^\d+\.\d+/) });
  expect(await cli("set second 2")).toBe("OK");
  expect(await store.restore(backup.id)).toMatchObject({ status: "succeeded" });
  expect(await cli("keys '*'")).toBe("first");
  expect(await cli("set third 3")).toBe("OK");
  const labels = selector({ [label("service")]: (await store.show()).id });
  const [pod] = (await kube.list(Pod, { labels })).items;
  await kube.remove(Pod, pod!.metadata!.name!, pod!.metadata!.namespace!);
  await eventually(
    "it has them again",
    async () => (await cli("mget first third")).split("\n").join(" ") === "1 3",
  );
  await expect.poll(store.leftovers).toEqual([]);
});

test("a backup of each type is restored to the side, and nothing is left of that", async () => {
  const { namespace } = inject("platform")!;
  const { call } = await connectKubectl();
  const { items } = await kube.list(Pod, { namespace, labels: "app.kubernetes.io/component=postgres" });
  const psql = `PGPASSWORD=$(cat /etc/berth-password/password) psql -qXAth 127.0.0.1 -U postgres -v ON_ERROR_STOP=1 berth -c "$0"`;
  const inDatabase = (text: string) =>
    call(
      "exec",
      "-n",
      namespace,
      items[0]!.metadata!.name!,
      "--",
      "sh",
      "-c",
      psql,
      `set search_path = deployer; ${text}`,
    );
  for (const type of ["postgres", "redis"] as const) {
    const one = await addon(type);
    const write =
      type === "postgres"
        ? `psql "$STORE" -qc "create table notes as select 1 as n"`
        : "redis-cli set first 1";
    await one.ran(write);
    const { id } = await one.backUp();
    // This night's proof is to be of this addon: the others were proved just now, so to speak.
    await inDatabase(
      `delete from proofs; insert into proofs (night, backup_id, service_id, environment_id, type, status, started_at, finished_at, due_at)
       select current_date - 100 - row_number() over ()::int, 'none', id, environment_id, type, 'succeeded', now(), now(), null
       from services where type in ('postgres', 'redis') and id <> '${(await one.show()).id}'`,
    );
    await eventually("its proof has begun", async () => {
      const begun = await inDatabase(`select count(*) from proofs where backup_id = '${id}'`);
      return begun.trim() === "1";
    });
    await eventually("it is proved", async () => {
      const { provedAt, proofFailure } = await world.must<Backup>("GET", `${one.S}/backups/${id}`);
      if (proofFailure !== undefined) throw new Error(proofFailure);
      return provedAt !== undefined;
    });
    const counted = `select counted from proofs where backup_id = '${id}'`;
    expect((await inDatabase(counted)).trim()).toBe("1");
    const labels = selector({ [label("kind")]: "copy", [label("environment")]: one.environmentId });
    await eventually("its Job is gone", async () => (await kube.list(Job, { labels })).items.length === 0);
    await eventually("its pod is gone", async () => (await kube.list(Pod, { labels })).items.length === 0);
  }
});
