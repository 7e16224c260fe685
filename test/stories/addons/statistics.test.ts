import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { encode } from "../../../services/deployer/addons/redis-client.ts";
import { addonAdmin, withRedis } from "../../../services/deployer/addons/testing.ts";
import { createSecrets } from "../../../services/deployer/secrets.ts";
import { openProxy, type TcpProxy } from "../../../services/kit/testing/proxy.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { openMachine } from "../../support/cli.ts";
import { bringIn, refusal } from "../../support/door.ts";
import { startWorld, type World } from "../../support/world.ts";

type Statistics = {
  readAt: string;
  version: string;
  uptimeSeconds: number;
  connections: { open: number; active?: number; idleInTransaction?: number; max: number };
  postgres?: {
    sizeBytes: number;
    cacheHitRatio?: number;
    commits: number;
    running: {
      pid: number;
      seconds: number;
      state: string;
      wait?: string;
      blockedBy: number[];
      text: string;
    }[];
    tables: {
      name: string;
      sizeBytes: number;
      rows: number;
      seqScans: number;
      indexScans: number;
      lastVacuumAt?: string;
    }[];
    unusedIndexes: { name: string; table: string; sizeBytes: number }[];
    statements: {
      text: string;
      calls: number;
      totalSeconds: number;
      meanMilliseconds: number;
      rows: number;
    }[];
    statementsReason?: string;
  };
  redis?: {
    memory: { usedBytes: number; maxBytes?: number };
    keys: number;
    hitRatio?: number;
    slow: { at: string; microseconds: number; command: string; arguments: number }[];
  };
};

const secretKey = randomBytes(32);
let proxy: TcpProxy;
let world: World;
let at: Awaited<ReturnType<World["environment"]>>;
const clients: pg.Client[] = [];

beforeAll(async () => {
  const admin = await addonAdmin();
  proxy = await openProxy(new URL(admin));
  world = await startWorld({
    ADDON_POSTGRES_URL: proxy.of(admin),
    SECRET_KEYS: secretKey.toString("base64"),
  });
  at = await world.environment();
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.end()));
  await world?.stop();
  proxy?.shut();
});

/** Creates an addon, and returns its URL once it has one. */
async function addon(name: string, type: string): Promise<URL> {
  await world.must("POST", `${at.E}/services`, { name, type });
  const variable = `URL_OF_${name.toUpperCase().replaceAll("-", "_")}`;
  await world.must("POST", `${at.E}/variables`, {
    name: variable,
    connection: { service: name, key: "URL" },
  });
  return eventually("the addon has an address", async () => {
    const path = `${at.E}/variables/${variable}/reveal`;
    const { status, body } = await world.call<{ value: string }>("POST", path);
    return status === 200 && new URL(body.value);
  });
}

async function connectTo(url: URL): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url.href });
  client.on("error", () => {});
  await client.connect();
  clients.push(client);
  return client;
}

const pathOf = (name: string) => `${at.S(name)}/statistics`;
const statisticsOf = (name: string) => world.must<Statistics>("GET", pathOf(name));
const postgresOf = async (name: string) => (await statisticsOf(name)).postgres!;

/** Whether the server of these tests collects statements; that of an operator may not. */
async function collects(): Promise<boolean> {
  const admin = await connectTo(new URL(inject("postgresAdminUrl")));
  const { rows } = await admin.query("show shared_preload_libraries");
  return rows[0].shared_preload_libraries.includes("pg_stat_statements");
}

test("a database shows its size, cache, tables, indexes, and who is connected", async () => {
  const app = await connectTo(await addon("db", "postgres"));
  await app.query("create schema shop");
  await app.query("create table shop.orders (id int primary key, note text)");
  await app.query("create index orders_note on shop.orders (note)");
  await app.query("insert into shop.orders select n, 'note ' || n from generate_series(1, 5000) n");
  await app.query("create table small (id int)");
  for (let n = 0; n < 3; n++) await app.query("select count(*) from shop.orders");
  const seen = await eventually("what was read is counted", async () => {
    // A connection reports what it did as it goes idle, and at most once a second.
    await app.query("select 1");
    const found = await statisticsOf("db");
    const [orders] = found.postgres!.tables;
    return orders?.name === "shop.orders" && orders.rows === 5_000 && orders.seqScans > 0 && found;
  });
  const { rows } = await app.query("show server_version");
  expect(seen.version).toBe(rows[0].server_version.split(" ")[0]);
  expect(seen.connections).toEqual({ open: 1, active: 0, idleInTransaction: 0, max: 20 });
  expect(Math.abs(Date.parse(seen.readAt) - Date.now())).toBeLessThan(60_000);
  const { sizeBytes, cacheHitRatio, commits, tables, unusedIndexes, running } = seen.postgres!;
  expect(sizeBytes).toBeGreaterThan(1_000_000);
  expect(commits).toBeGreaterThan(0);
  expect(cacheHitRatio).toBeGreaterThan(0.5);
  expect(cacheHitRatio).toBeLessThanOrEqual(1);
  expect(tables.map(({ name }) => name)).toEqual(["shop.orders", "small"]);
  expect(tables[0]!.sizeBytes).toBeGreaterThan(300_000);
  expect(unusedIndexes).toMatchObject([{ name: "orders_note", table: "shop.orders" }]);
  // It does not show what it does itself.
  expect(running).toEqual([]);
});

test("a statement that runs is seen, and whom it waits for, also while a table is locked", async () => {
  const url = await addon("busy", "postgres");
  const [holder, waiter] = [await connectTo(url), await connectTo(url)];
  await holder.query("create table locked as select generate_series(1, 10000) as n");
  await holder.query("begin");
  await holder.query("lock table locked in access exclusive mode");
  const waiting = waiter.query("select count(*) from locked");
  const { rows } = await holder.query("select pg_backend_pid() as pid");
  const found = await eventually("the waiting statement is seen", async () => {
    const { running, tables } = await postgresOf("busy");
    const waits = running.find(({ text }) => text === "select count(*) from locked");
    return waits?.wait === "Lock: relation" && { waits, running, tables };
  });
  expect(found.waits).toMatchObject({ state: "active", blockedBy: [rows[0].pid] });
  expect(found.waits.seconds).toBeGreaterThanOrEqual(0);
  const held = found.running.find(({ pid }) => pid === rows[0].pid);
  expect(held).toMatchObject({ state: "idle_in_transaction", blockedBy: [] });
  expect(found.tables.map(({ name }) => name)).toEqual(["locked"]);
  await holder.query("rollback");
  expect((await waiting).rows).toEqual([{ count: "10000" }]);
});

test("texts are cut, whatever is in them, and no other database's statements are shown", async () => {
  const [mine, others] = [await addon("mine", "postgres"), await addon("others", "postgres")];
  const [app, other] = [await connectTo(mine), await connectTo(others)];
  await other.query("begin");
  await other.query("select 'of-another-database'");
  await app.query("begin");
  const hostile = `select '<script>alert(1)</script>\u0001\u202e' as a, '${"é".repeat(500_000)}' as b`;
  await app.query(hostile);
  const { running } = await postgresOf("mine");
  expect(running).toHaveLength(1);
  // PostgreSQL itself keeps no more than so many bytes of what runs.
  expect(hostile.startsWith(running[0]!.text)).toBe(true);
  expect(running[0]!.text.length).toBeLessThanOrEqual(1_000);
  await app.query("rollback");
  const long = `select n as "<b>x" /* ${"x".repeat(1_000_000)} */ from generate_series(1, 3) n where n > 1`;
  const isCollected = await collects();
  const { statements, statementsReason } = await eventually("what was run is collected", async () => {
    await app.query(long);
    const found = await postgresOf("mine");
    return (
      (!isCollected || found.statements.some(({ text }) => text.startsWith('select n as "<b>x"'))) && found
    );
  });
  if (!isCollected) return expect(statementsReason).toContain("does not collect");
  const cut = statements.find(({ text }) => text.startsWith('select n as "<b>x"'))!;
  expect(cut.text).toHaveLength(1_000);
  expect(cut.rows).toBe(2 * cut.calls);
  expect(cut.meanMilliseconds).toBeGreaterThan(0);
  expect(statements.length).toBeLessThanOrEqual(20);
  for (const { text } of statements) {
    expect(text).not.toContain("another-database");
    expect(text).not.toContain("insufficient privilege");
    expect(text).not.toContain("berth statistics");
  }
  expect((await postgresOf("others")).statements.map(({ text }) => text).join()).not.toContain("<b>x");
});

test("views and settings of the database change nothing of what is read", async () => {
  const app = await connectTo(await addon("own", "postgres"));
  const { rows } = await app.query("select current_user as name");
  await app.query("create schema own");
  await app.query("create view own.pg_stat_activity as select 1 as pid");
  await app.query(
    "create function own.pg_database_size(oid) returns bigint language sql as 'select 1::bigint'",
  );
  await app.query(`alter role "${rows[0].name}" set search_path = own, pg_catalog`);
  await app.query(`alter role "${rows[0].name}" set statement_timeout = 1`);
  await app.query(`alter database "${rows[0].name}" set datestyle = 'German'`);
  await app.query(`alter database "${rows[0].name}" set timezone = '1.3958'`);
  await app.query("create table dated (id int)");
  await app.query("vacuum dated");
  const { postgres, connections } = await eventually("the vacuum is known", async () => {
    await app.query("select 1");
    const found = await statisticsOf("own");
    return found.postgres!.tables[0]?.lastVacuumAt !== undefined && found;
  });
  expect(postgres!.sizeBytes).toBeGreaterThan(1_000_000);
  expect(connections.open).toBe(1);
  expect(Math.abs(Date.parse(postgres!.tables[0]!.lastVacuumAt!) - Date.now())).toBeLessThan(60_000);
});

test("while an app holds all connections, 503 says so", async () => {
  const url = await addon("full", "postgres");
  const all: pg.Client[] = [];
  while (all.length < 20) all.push(await connectTo(url));
  const { status, body } = await world.call("GET", pathOf("full"));
  expect([status, body.error?.code, body.error?.message]).toEqual([
    503,
    "unavailable",
    expect.stringContaining("All connections"),
  ]);
  await all[0]!.end();
  await eventually("one is free", async () => (await world.call("GET", pathOf("full"))).status === 200);
});

withRedis("a cache shows its keys, hits, memory and slow commands", async () => {
  const url = await addon("cache", "redis");
  const words = (...parts: string[]) => encode(parts);
  const socket = connect(Number(url.port), url.hostname);
  const value = `<img onerror>\0${"x".repeat(1_000_000)}`;
  socket.write(words("AUTH", url.password) + words("CONFIG", "SET", "slowlog-log-slower-than", "0"));
  socket.write(words("SET", "someone@example.com", value) + words("GET", "someone@example.com"));
  socket.write(words("GET", "none") + words("DEL", ...Array.from({ length: 50 }, (_, n) => `key-${n}`)));
  socket.resume();
  const seen = await eventually("its commands are seen", async () => {
    const found = await statisticsOf("cache");
    return found.redis!.slow.some(({ command }) => command === "DEL") && found;
  });
  expect(seen.version).toMatch(/^\d+\.\d+\.\d+$/);
  expect(seen.connections).toMatchObject({ open: 1 });
  expect(seen.connections.max).toBeGreaterThan(0);
  const { memory, keys, hitRatio, slow } = seen.redis!;
  expect([keys, hitRatio]).toEqual([1, 0.5]);
  expect(memory.usedBytes).toBeGreaterThan(500_000);
  expect(memory.maxBytes).toBeGreaterThan(memory.usedBytes);
  const argumentsOf = (name: string) => slow.find(({ command }) => command === name)?.arguments;
  expect([argumentsOf("SET"), argumentsOf("GET"), argumentsOf("DEL")]).toEqual([2, 1, 50]);
  expect(JSON.stringify(seen)).not.toMatch(/example\.com|onerror|key-1/);
  expect(seen.postgres).toBeUndefined();
  socket.destroy();
});

test("editors read them, of addons that are ready; nobody else learns that there is one", async () => {
  await addon("guarded", "postgres");
  await world.must("POST", `${at.E}/services`, { name: "web", type: "web" });
  const answer = async (path: string, more = {}) => refusal(await world.call("GET", path, undefined, more));
  const { token: reader } = await world.member("reader");
  expect(await answer(pathOf("guarded"), { token: reader })).toBe("403 forbidden");
  const { token: editor } = await world.member("editor");
  expect((await world.call("GET", pathOf("guarded"), undefined, { token: editor })).status).toBe(200);
  expect(await answer(pathOf("web"))).toBe("422 not_addon");
  expect(await answer(pathOf("none"))).toBe("404 not_found");
  const other = await world.must<{ id: string }>("POST", "/accounts", { handle: `other-${Date.now()}` });
  const { token: stranger } = await bringIn(world.call, `/accounts/${other.id}`, "owner");
  expect(await answer(pathOf("guarded"), { token: stranger })).toBe("403 forbidden");
  const elsewhere = pathOf("guarded").replace(world.accountId, other.id);
  expect(await answer(elsewhere, { token: stranger })).toBe("404 not_found");
});

test("berth addons stats shows them in a terminal", async () => {
  const app = await connectTo(await addon("shown", "postgres"));
  await app.query("create table orders as select generate_series(1, 5000) as n");
  await app.query("begin");
  await app.query("select 'a\u001b[2Jb'\n\n as x");
  const machine = openMachine(world.processEnv);
  try {
    await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
    const [, project = "", environment = ""] = /projects\/(\w+)\/environments\/(\w+)$/.exec(at.E) ?? [];
    const where = ["--account", world.accountId, "-p", project, "-e", environment];
    const shown = await machine.must(["addons", "stats", "shown", ...where]);
    expect(shown).toMatch(/^size +[\d.]+ MB$/m);
    expect(shown).toMatch(/^connections +1 of 20/m);
    expect(shown).toMatch(/^TABLE +SIZE +ROWS /m);
    expect(shown).toMatch(/^orders +[\d.]+ kB /m);
    expect(shown).toMatch(/^\d+ +[\d.]+ s +idle in transaction .*select 'a.*b' as x$/m);
    expect(shown).not.toContain("\u001b[2J");
    const json = JSON.parse(await machine.must(["addons", "stats", "shown", "--json", ...where]));
    expect(json.postgres.tables).toMatchObject([{ name: "orders" }]);
    const refused = await machine.berth(["addons", "stats", "none", ...where]);
    expect(refused.code).not.toBe(0);
  } finally {
    machine.remove();
  }
});

test("while a password is replaced, the server may have the next one already", async () => {
  await addon("rotating", "postgres");
  const { id } = await world.must<{ id: string }>("GET", at.S("rotating"));
  const former = createSecrets([secretKey]).seal("a-former-password", id);
  const deployer = await connectTo(new URL(world.database.url("deployer")));
  const update = "update services set addon_next_secret = addon_secret, addon_secret = $2 where id = $1";
  await deployer.query(update, [id, former]);
  expect((await statisticsOf("rotating")).version).toMatch(/^\d+/);
});

test("a server that is away or silent is 503, as are more addons at once than are read, and one that is not there 409", async () => {
  const names = ["away-1", "away-2", "away-3", "away-4", "away-5"];
  for (const name of names) await addon(name, "postgres");
  const answer = async (name: string) => {
    const { status, body } = await world.call("GET", pathOf(name));
    return `${status} ${body.error?.message}`;
  };
  const noAnswer = "503 The server of the addon does not answer; try again later.";
  proxy.shut();
  expect(await answer("away-1")).toBe(noAnswer);
  // Neither made nor removed while its server is away.
  await world.must("POST", `${at.E}/services`, { name: "unready", type: "postgres" });
  expect(refusal(await world.call("GET", pathOf("unready")))).toBe("409 service_not_ready");
  await world.must("DELETE", at.S("unready"));
  expect(refusal(await world.call("GET", pathOf("unready")))).toBe("409 service_deleting");
  await proxy.open();
  proxy.hang("silent");
  // Requests for one addon share an answer.
  const few = [...names.slice(0, 4), "away-1", "away-1"];
  expect(new Set(await Promise.all(few.map(answer)))).toEqual(new Set([noAnswer]));
  const answers = await Promise.all(names.map(answer));
  expect(answers.filter((one) => one !== noAnswer)).toEqual([
    "503 The statistics of many addons are being read; try again in a moment.",
  ]);
  proxy.goOn("silent");
  await eventually("it answers again", async () => (await answer("away-1")).startsWith("200"));
});
