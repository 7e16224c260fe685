import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { prepare, waitForDatabase } from "./prepare.ts";
import { databaseUrl } from "./provision.ts";

const processes = ["gateway", "identity", "variables", "deployer", "billing"];
const log = createLog("test", "silent");
const key = (fill: number) => `k1:${Buffer.alloc(32, fill).toString("base64")}`;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-prepare-"));
  for (const name of processes) await writeFile(join(folder, name), `password of ${name}/@:\n`);
});

afterAll(() => rm(folder, { recursive: true }));

async function ask(url: string, sql: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** An installation on the tests' server, under names of its own. */
function installation(admin: URL, extra: Record<string, string> = {}) {
  const unique = `t_${randomBytes(6).toString("hex")}`;
  const server = new URL(admin);
  const [user, password] = [decodeURIComponent(server.username), decodeURIComponent(server.password)];
  server.username = server.password = "";
  const env = {
    DATABASE_SERVER_URL: server.href,
    DATABASE_NAME: unique,
    ROLE_PREFIX: `${unique}_`,
    PROCESSES: processes.join(","),
    PASSWORDS_DIR: folder,
    ADMIN_USER: user,
    ADMIN_PASSWORD: password,
    ENCRYPTION_KEYS: key(1),
    PATIENCE_SECONDS: "1",
    ...extra,
  };
  const url = (name: string) => {
    const own = new URL(databaseUrl(server.href, unique));
    own.username = `${unique}_${name}`;
    own.password = encodeURIComponent(`password of ${name}/@:`);
    return own.href;
  };
  return { env, url, unique };
}

test("a fresh server gets every role, schema and table; a second run changes nothing", async () => {
  const { env, url } = installation(new URL(inject("postgresAdminUrl")));
  await prepare(env, log);
  await prepare(env, log);
  expect(await ask(url("identity"), "select count(*)::int as n from users")).toEqual([{ n: 0 }]);
  expect(await ask(url("gateway"), "select current_schema() as s")).toEqual([{ s: "gateway" }]);
  await expect(ask(url("variables"), "select * from identity.users")).rejects.toMatchObject({
    code: "42501",
  });
});

test("an administrator who is no superuser is enough", async () => {
  const admin = new URL(inject("postgresAdminUrl"));
  const name = `a_${randomBytes(6).toString("hex")}`;
  await ask(admin.href, `create role ${name} login password 'x' createdb createrole`);
  const own = new URL(admin);
  own.username = name;
  own.password = "x";
  const { env, url } = installation(own);
  await prepare(env, log);
  await prepare(env, log);
  expect(await ask(url("deployer"), "select current_schema() as s")).toEqual([{ s: "deployer" }]);
});

test("other encryption keys than those of the data are refused", async () => {
  const { env, url } = installation(new URL(inject("postgresAdminUrl")));
  await prepare(env, log);
  await ask(url("variables"), "insert into data_keys (account_id, kek_id, wrapped) values ('a', 'k1', '')");
  for (const other of [key(2), key(2).replace("k1", "k2")])
    await expect(prepare({ ...env, ENCRYPTION_KEYS: other }, log)).rejects.toThrow("encryption keys are not");
  await prepare({ ...env, ENCRYPTION_KEYS: `${key(1)},${key(2).replace("k1", "k2")}` }, log);
});

test("an installation that failed before it held anything is repeated with other keys and passwords", async () => {
  const admin = new URL(inject("postgresAdminUrl"));
  const { env, url, unique } = installation(admin);
  // A schema that is not the role's own: its migrations fail.
  await ask(admin.href, `create database ${unique}`);
  const database = databaseUrl(admin.href, unique);
  await ask(database, "create schema identity");
  await expect(prepare(env, log)).rejects.toThrow("no schema has been selected");
  await ask(database, "drop schema identity");
  const next = { ...env, ENCRYPTION_KEYS: key(2).replace("k1", "k2") };
  await prepare(next, log);
  await ask(url("variables"), "insert into data_keys (account_id, kek_id, wrapped) values ('a', 'k2', '')");
  await prepare(next, log);
  await expect(prepare(env, log)).rejects.toThrow("encryption keys are not");
});

test("without an administrator the migrations of roles that are there run alone", async () => {
  const { env, url, unique } = installation(new URL(inject("postgresAdminUrl")));
  await prepare(env, log);
  const fresh = `drop schema identity cascade; create schema identity authorization ${unique}_identity`;
  await ask(databaseUrl(inject("postgresAdminUrl"), unique), fresh);
  await prepare({ ...env, ADMIN_USER: "", ADMIN_PASSWORD: "" }, log);
  expect(await ask(url("identity"), "select count(*)::int as n from users")).toEqual([{ n: 0 }]);
});

test("a process waits until its role can log in and its migrations are there", async () => {
  const { env, url } = installation(new URL(inject("postgresAdminUrl")));
  let ready = false;
  const waiting = waitForDatabase({ DATABASE_URL: url("variables") }, "variables", log).then(() => {
    ready = true;
  });
  await expect(ask(url("variables"), "select 1")).rejects.toThrow();
  expect(ready).toBe(false);
  await prepare(env, log);
  await eventually("it goes on", async () => ready);
  await waiting;
});

test("a rollback is prepared over what a newer version added, and refused over what it took away", async () => {
  const { env, url } = installation(new URL(inject("postgresAdminUrl")));
  await prepare(env, log);
  const apply = (name: string, oldest: string) =>
    ask(url("billing"), `insert into schema_migrations (name, oldest) values ('${name}', ${oldest})`);
  const waits = () => waitForDatabase({ DATABASE_URL: url("billing") }, "billing", log);
  await apply("9001-more.sql", "null");
  await prepare(env, log);
  await waits();
  await apply("9002-less.sql", "'9001'");
  const sentence = /too old for the schema billing.*since 9002-less\.sql/;
  await expect(prepare(env, log)).rejects.toThrow(sentence);
  await expect(waits()).rejects.toThrow(sentence);
});

test("a server that never comes ends the wait with its error", async () => {
  const { env } = installation(new URL("postgres://nobody:x@127.0.0.1:9/postgres"));
  await expect(prepare(env, log)).rejects.toMatchObject({ code: "ECONNREFUSED" });
});
