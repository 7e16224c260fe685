import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { ProjectCreatedSchema } from "../../proto/gen/berth/deployer/v1/events_pb.ts";
import { connectBus } from "../../services/kit/events/bus.ts";
import { startConsumer } from "../../services/kit/events/consumer.ts";
import { on } from "../../services/kit/events/handler.ts";
import { emit, startRelay } from "../../services/kit/events/outbox.ts";
import { newId } from "../../services/kit/ids.ts";
import { createLog } from "../../services/kit/log.ts";
import { createPool, transaction } from "../../services/kit/postgres/db.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { findS3Server, type S3Server, startS3Server } from "../../test/support/servers/s3-server.ts";
import { prepare } from "../database/prepare.ts";
import { databaseUrl } from "../database/provision.ts";
import { withStoppedPlatform } from "../local/backup/servers.ts";
import { readSecrets } from "../local/data/secrets.ts";
import { addonRole } from "../local/postgres/database.ts";
import { roles } from "../local/programs/programs.ts";
import { backup, makeBackup } from "./backup.ts";
import { listBackups } from "./backups.ts";
import { openBucket } from "./bucket.ts";
import { openFolder } from "./folder.ts";
import { restore } from "./restore.ts";

const PROCESSES = ["gateway", "identity", "variables", "deployer", "notifications", "billing"];
const log = createLog("test", "silent");
const stops: (() => Promise<unknown>)[] = [];
let server: S3Server;
let folder: string;

const program = findS3Server();
if (program === undefined)
  console.warn(
    "No versitygw on PATH nor in the cache of deploy/cluster: backups are tested with the cluster.",
  );

beforeAll(async () => {
  if (program === undefined) return;
  server = await startS3Server(program);
  folder = await mkdtemp(join(tmpdir(), "berth-backup-"));
  for (const name of PROCESSES) await writeFile(join(folder, name), `password-of-${name}`);
});

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  await server?.close();
  if (folder) await rm(folder, { recursive: true });
});

const bucketOf = (bucket: string, prefix = "") =>
  openBucket({ ...server, region: "us-east-1", bucket, prefix });

/** An installation's servers, with a database that is prepared, and where its backups go. */
async function installation(backups: string, extra: Record<string, string> = {}) {
  const admin = new URL(inject("postgresAdminUrl"));
  const [user, password] = [decodeURIComponent(admin.username), decodeURIComponent(admin.password)];
  const name = `t_${randomBytes(6).toString("hex")}`;
  const home = databaseUrl(admin.href, name);
  admin.username = admin.password = "";
  const nats = await testNats();
  const store = bucketOf(`store-${name.slice(2)}`);
  await store.make();
  const env = {
    DATABASE_SERVER_URL: admin.href,
    DATABASE_NAME: name,
    ROLE_PREFIX: `${name}_`,
    PROCESSES: PROCESSES.join(","),
    PASSWORDS_DIR: folder,
    ADMIN_USER: user,
    ADMIN_PASSWORD: password,
    ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString("base64")}`,
    NATS_URL: nats.url,
    PATIENCE_SECONDS: "1",
    BACKUP_S3_ENDPOINT: server.endpoint,
    BACKUP_S3_BUCKET: backups,
    BACKUP_S3_ACCESS_KEY: server.accessKey,
    BACKUP_S3_SECRET_KEY: server.secretKey,
    S3_ENDPOINT: server.endpoint,
    S3_BUCKET: `store-${name.slice(2)}`,
    S3_ACCESS_KEY: server.accessKey,
    S3_SECRET_KEY: server.secretKey,
    ...extra,
  };
  await prepare(env, log);
  const url = (schema: string) => `${home}?options=-c%20search_path%3D${schema}`;
  const ask = async (sql: string) => {
    const client = new pg.Client({ connectionString: home });
    await client.connect();
    return client.query(sql).finally(() => client.end());
  };
  stops.push(async () => {
    await nats.remove();
    const client = new pg.Client({ connectionString: inject("postgresAdminUrl") });
    await client.connect();
    await client.query(`drop database ${name} with (force)`);
    for (const process of PROCESSES) await client.query(`drop role ${name}_${process}`);
    await client.end();
  });
  return { env, url, ask, store };
}

type Installation = Awaited<ReturnType<typeof installation>>;

/** The relay of the deployer's events, and their consumer in billing. */
function startEvents({ env, url }: Installation) {
  const [from, to] = [url("deployer"), url("billing")];
  const buses = [connectBus(env.NATS_URL, "test", log), connectBus(env.NATS_URL, "test", log)];
  const relay = startRelay({ url: from, bus: buses[0]!, log });
  const pool = createPool(to);
  const handlers = [on(ProjectCreatedSchema, async () => {})];
  const consumer = startConsumer({
    bus: buses[1]!,
    pool,
    log,
    name: "billing-deployer",
    from: "deployer",
    handlers,
  });
  return async () => {
    await Promise.all([relay.stop(), consumer.stop()]);
    for (const one of buses) await one.close();
    await pool.end();
  };
}

/** Makes changes with their events until it is stopped; returns how many it made. */
function startChanges({ url }: Installation) {
  const pool = createPool(url("deployer"));
  let [goesOn, made] = [true, 0];
  const worker = async () => {
    for (; goesOn; made++) {
      const projectId = newId("prj");
      await transaction(pool, async (tx) => {
        await tx.query("insert into projects (id, account_id, name) values ($1, 'acc', $1)", [projectId]);
        await emit(tx, ProjectCreatedSchema, "acc", { accountId: "acc", projectId });
      });
    }
  };
  const workers = [worker(), worker(), worker()];
  return {
    made: () => made,
    async stop() {
      goesOn = false;
      await Promise.all(workers);
      await pool.end();
    },
  };
}

const HANDLED = "select event_id from billing.inbox where consumer = 'billing-deployer'";
const count = async ({ ask }: Installation, sql: string) => (await ask(sql)).rowCount!;

describe.skipIf(program === undefined)("a backup", () => {
  test("that is made while events flow is restored with each change, whose event takes effect once", async () => {
    const bucket = "flow";
    await bucketOf(bucket).make();
    const lost = await installation(bucket);
    const stopEvents = startEvents(lost);
    const changes = startChanges(lost);
    await eventually("events flow", async () => (await count(lost, HANDLED)) > 100);
    const before = changes.made();
    expect(await backup(lost.env)).toMatchObject({ exitCode: 0 });
    await changes.stop();
    await stopEvents();

    const found = await installation(bucket);
    expect(await restore(found.env)).toMatchObject({ exitCode: 0 });
    const projects = await count(found, "select from deployer.projects");
    expect(projects).toBeGreaterThanOrEqual(before);
    expect(projects).toBeLessThan(changes.made());
    const handled = await count(found, HANDLED);
    expect(handled).toBeLessThan(projects);
    const stopAgain = startEvents(found);
    await eventually("each event is handled", async () => (await count(found, HANDLED)) >= projects);
    await eventually(
      "the outbox is empty",
      async () => (await count(found, "select from deployer.outbox")) === 0,
    );
    // Those after the backup are lost with their changes.
    expect(await count(found, HANDLED)).toBe(projects);
    await stopAgain();
  });

  test("holds what the tables and the object store have, byte for byte", async () => {
    const bucket = "exact";
    await bucketOf(bucket).make();
    const lost = await installation(bucket);
    await lost.ask(`
      insert into deployer.projects (id, account_id, name) values ('prj_1', 'acc', E'a "name"\\\\ \\n\\t ünï   line');
      insert into deployer.outbox (id, subject, payload, headers) values ('evt_1', 's', '\\x00ff10', '{"a": 1.50}');
      insert into identity.inbox (consumer, event_id, at) values ('c', 'e', '2026-01-02 03:04:05.678901+00')`);
    const bytes = randomBytes(100_000);
    await lost.store.put("archives/svc/arc~", bytes, { size: bytes.length, type: "application/gzip" });
    const lacks = "the encryption keys, the data of addons, images";
    expect((await backup(lost.env)).output).toContain(`it does not contain ${lacks}\n`);
    const found = await installation(bucket);
    expect((await restore(found.env)).output).toContain(`It did not contain ${lacks}.\n`);
    for (const table of [
      "deployer.projects",
      "deployer.outbox",
      "identity.inbox",
      "installation.encryption_keys",
    ]) {
      const all = `select to_json(t)::text as row from ${table} t`;
      expect((await found.ask(all)).rows).toEqual((await lost.ask(all)).rows);
    }
    // Identities go on where they were.
    const next = await found.ask(
      "insert into deployer.outbox (id, subject, payload) values ('evt_2', 's', '') returning seq::int",
    );
    expect(next.rows).toEqual([{ seq: 2 }]);
    const body = Buffer.concat(await (await found.store.get("archives/svc/arc~")).toArray());
    expect(body.equals(bytes)).toBe(true);
    expect(await found.store.stat("archives/svc/arc~")).toEqual({ size: 100_000, type: "application/gzip" });
  });

  test("is kept until there are newer ones, with the uploads that only it has; half of one goes", async () => {
    const bucket = "kept";
    const backups = bucketOf(bucket, "berth");
    await backups.make();
    const own = await installation(bucket, { BACKUP_KEEP: "2" });
    await own.store.put("one~", Buffer.from("1"));
    await backup(own.env, new Date("2026-01-01T03:00:00Z"));
    await own.store.remove(["one~"]);
    await own.store.put("two~", Buffer.from("2"));
    await backups.put("backups/2025-01-01T03-00-00Z/uploads.jsonl.gz", Buffer.from("half"));
    await backup(own.env, new Date("2026-01-02T03:00:00Z"));
    const uploads = async () =>
      (await backups.list("uploads/")).map(({ path }) => path.split("/").at(-1)).sort();
    expect(await uploads()).toEqual(["one~", "two~"]);
    await backup(own.env, new Date("2026-01-03T03:00:00Z"));
    expect(await listBackups(backups)).toEqual(["2026-01-02T03-00-00Z", "2026-01-03T03-00-00Z"]);
    expect(await uploads()).toEqual(["two~"]);
    expect((await backups.list("")).filter(({ path }) => path.includes("2025"))).toEqual([]);
    expect(await restore({ ...own.env, RESTORE_FROM: "2026-01-01T03-00-00Z" })).toEqual({
      output:
        "there is no backup 2026-01-01T03-00-00Z; existing backups: 2026-01-02T03-00-00Z, 2026-01-03T03-00-00Z\n",
      exitCode: 1,
    });
  });

  test("whose database server goes away in the midst of it ends with a sentence, and is not whole", async () => {
    const bucket = "killed";
    await bucketOf(bucket).make();
    const own = await installation(bucket);
    await own.ask(`insert into deployer.projects (id, account_id, name)
      select 'prj_' || n, 'acc', repeat(md5(n::text), 20) from generate_series(1, 100000) n`);
    const child = spawn(process.execPath, [join(import.meta.dirname, "backup.ts")], {
      env: { PATH: process.env.PATH, ...own.env },
    });
    const said = text(child.stderr);
    const ended = once(child, "exit");
    await eventually("its sessions are ended while it reads rows", async () => {
      const { rowCount } = await own.ask(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query like 'fetch %' and pid <> pg_backend_pid()`,
      );
      return rowCount! > 0;
    });
    expect(await ended).toEqual([1, null]);
    expect(await said).toBe("the database server ended the connection: the backup was not made\n");
    expect(await listBackups(bucketOf(bucket, "berth"))).toEqual([]);
    await own.ask("delete from deployer.projects");
    expect(await backup(own.env)).toMatchObject({ exitCode: 0 });
  });

  test("is not restored with other keys, nor while the platform runs, and nothing changes then", async () => {
    const bucket = "refused";
    await bucketOf(bucket).make();
    const own = await installation(bucket);
    await backup(own.env);
    await own.ask("insert into deployer.projects (id, account_id, name) values ('prj_1', 'acc', 'later')");
    const ENCRYPTION_KEYS = `k2:${Buffer.alloc(32, 2).toString("base64")}`;
    await expect(restore({ ...own.env, ENCRYPTION_KEYS })).rejects.toThrow(
      /differ from those of the backup \(k1\)/,
    );
    const pool = createPool(own.url("deployer"), { name: "berth-deployer" });
    await pool.query("select 1");
    await expect(restore(own.env)).rejects.toThrow(
      "stop the platform first; these processes are still connected to the database: berth-deployer",
    );
    await pool.end();
    expect(await count(own, "select from deployer.projects")).toBe(1);
    expect(await restore(own.env)).toMatchObject({ exitCode: 0 });
    expect(await count(own, "select from deployer.projects")).toBe(0);
  });

  test("of one machine, copied to an S3, is restored on a cluster that has its keys", async () => {
    const data = join(folder, "machine");
    const { encryptionKeys } = await readSecrets(data, [...roles, addonRole], true);
    const copied = openFolder(join(folder, "copied"));
    await withStoppedPlatform(data, async (servers) => {
      const client = new pg.Client({ connectionString: servers.database });
      await client.connect();
      await client.query(
        "insert into deployer.projects (id, account_id, name) values ('prj_1', 'acc', 'one')",
      );
      await client.end();
      await servers.store!.put("archives/svc/arc~", Buffer.from("1"), { type: "application/gzip" });
      await makeBackup({ ...servers, backups: copied }, { keep: 1, missing: ["the keys"] });
    });
    const bucket = "machine";
    const backups = bucketOf(bucket, "berth");
    await backups.make();
    for (const { path } of await copied.list("")) await backups.put(path, await copied.get(path));
    const stranger = await installation(bucket);
    await expect(restore(stranger.env)).rejects.toThrow(/differ from those of the backup/);
    const found = await installation(bucket, { ENCRYPTION_KEYS: encryptionKeys });
    expect((await restore(found.env)).output).toContain("It did not contain the keys.");
    expect((await found.ask("select name from deployer.projects")).rows).toEqual([{ name: "one" }]);
    expect(await found.store.stat("archives/svc/arc~")).toEqual({ size: 1, type: "application/gzip" });
    const keys = await found.ask("select id from installation.encryption_keys");
    expect(keys.rows.map(({ id }) => id)).toEqual([encryptionKeys.split(":")[0]]);
  });
});
