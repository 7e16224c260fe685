import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { freePort, isFree } from "../../../services/kit/process/free-port.ts";
import { startChild } from "../processes/child.ts";
import { commandLine, isAlive } from "../processes/process-table.ts";
import { killHard, launch, moduleUrl, until } from "../testing.ts";
import { findBinaries } from "./binaries.ts";
import { findOsUser } from "./os-user.ts";
import { type PostgresServer, startPostgres } from "./postgres.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-postgres-"));
  // Registered first and so called last: what a test started in the folder has ended by then.
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  await chmod(dir, 0o711);
});

const start = async (options: { dir?: string; port?: number; durable?: boolean } = {}) => {
  const server = await startPostgres({ dir: join(dir, "pg"), durable: false, ...options });
  onTestFinished(() => server.stop());
  return server;
};

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** A server whose launcher was killed; without setpriv on the PATH nothing tells the server about it. */
async function orphan(): Promise<number> {
  const launcher = await launch<number>(
    `import { startPostgres } from ${JSON.stringify(moduleUrl("postgres/postgres.ts"))};
     const server = await startPostgres({ dir: ${JSON.stringify(join(dir, "pg"))}, durable: false });
     print(server.pid);`,
    "/nonexistent",
  );
  await killHard(launcher.process);
  expect(isAlive(launcher.value)).toBe(true);
  return launcher.value;
}

test("data, password and files survive a stop and a start", async () => {
  const first = await start();
  await query(first.adminUrl, "CREATE TABLE kept AS SELECT 7 AS n");
  await first.stop();
  await first.stop();
  expect(await isFree(first.port)).toBe(true);
  const second = await start({ port: first.port });
  expect(second.adminUrl).toBe(first.adminUrl);
  expect(await query(second.adminUrl, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
});

test("the password is asked for, readable by nobody else, and no process argument or log has it", async () => {
  const server = await start();
  const password = await readFile(join(dir, "pg/password"), "utf8");
  expect((await stat(join(dir, "pg/password"))).mode & 0o777).toBe(0o600);
  await expect(query(server.url("postgres", "postgres", "wrong"), "SELECT 1")).rejects.toMatchObject({
    code: "28P01",
  });
  expect(await commandLine(server.pid)).not.toContain(password);
  expect(await readFile(join(dir, "pg/postgres.log"), "utf8")).not.toContain(password);
});

test("a failing statement does not bring what it holds into the log", async () => {
  const server = await start();
  const statement = "CREATE ROLE postgres PASSWORD 'marker-of-a-secret'";
  await expect(query(server.adminUrl, statement)).rejects.toThrow("already exists");
  await query(server.adminUrl, "CREATE TABLE once (name text PRIMARY KEY)");
  const twice = "INSERT INTO once VALUES ('marker-of-a-secret'), ('marker-of-a-secret')";
  await expect(query(server.adminUrl, twice)).rejects.toThrow("duplicate");
  expect(await readFile(join(dir, "pg/postgres.log"), "utf8")).not.toContain("marker-of-a-secret");
});

test("the server listens on 127.0.0.1 only", async () => {
  const server = await start();
  const [other] = Object.values(networkInterfaces())
    .flat()
    .filter((address) => address && !address.internal && address.family === "IPv4");
  const host = other?.address ?? "127.0.0.2";
  const url = server.adminUrl.replace("127.0.0.1", host);
  await expect(query(url, "SELECT 1")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  expect(await query(server.adminUrl, "SHOW unix_socket_directories")).toEqual([
    { unix_socket_directories: "" },
  ]);
});

test("a server killed in the middle comes back with everything that was committed", async () => {
  const first = await start({ durable: true });
  await query(first.adminUrl, "CREATE TABLE kept AS SELECT 7 AS n");
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  const second = await start();
  expect(await query(second.adminUrl, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
});

test("a server killed under a busy session comes back, without that session", async () => {
  const first = await start();
  const busy = query(first.adminUrl, "SELECT count(*) FROM generate_series(1, 3000000000)").catch(
    () => "ended",
  );
  await until(async () => {
    const running =
      "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 3%' AND pid <> pg_backend_pid()";
    return (await query(first.adminUrl, running)).length === 1;
  });
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  const second = await start();
  expect(await query(second.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
  await busy;
});

test("a server that outlived its launcher is ended by the next start", async () => {
  const pid = await orphan();
  const server = await start();
  expect(await commandLine(pid)).toBeUndefined();
  expect(await query(server.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test.runIf(process.platform === "linux")("a killed launcher takes its server with it", async () => {
  const launcher = await launch<number>(
    `import { startPostgres } from ${JSON.stringify(moduleUrl("postgres/postgres.ts"))};
     print((await startPostgres({ dir: ${JSON.stringify(join(dir, "pg"))}, durable: false })).pid);`,
  );
  await killHard(launcher.process);
  await until(async () => (await commandLine(launcher.value)) === undefined);
});

test("a process that now has the dead server's id is left alone and does not hinder the start", async () => {
  await (await start()).stop();
  const bystander = await launch<string>("print('here');");
  onTestFinished(() => killHard(bystander.process));
  const file = join(dir, "pg/data/postmaster.pid");
  await writeFile(file, `${bystander.process.pid}\n${join(dir, "pg/data")}\n1\n5432\n\n\n`);
  const server = await start();
  expect(await query(server.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
  expect(isAlive(bystander.process.pid as number)).toBe(true);
});

test("a second start on the folder is refused while the first serves on", async () => {
  const first = await start();
  await expect(start()).rejects.toMatchObject({ kind: "folderTaken" });
  expect(await query(first.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test("somebody else's PostgreSQL on the folder is named and left alone", async () => {
  await (await start()).stop();
  const { postgres } = await findBinaries();
  const { prefix, uid, gid } = await findOsUser(join(dir, "pg"), postgres);
  const port = await freePort();
  const args = ["-D", join(dir, "pg/data"), "-p", String(port), "-c", "unix_socket_directories="];
  const command = { prefix, file: postgres, args, env: process.env, cwd: dir, uid, gid };
  const foreign = await startChild(command, join(dir, "foreign.log"), "SIGINT");
  onTestFinished(async () => void (await foreign.end("SIGINT", 5_000)));
  await until(async () => !(await isFree(port)));
  await expect(start()).rejects.toMatchObject({
    kind: "folderTaken",
    message: expect.stringContaining(`process ${foreign.pid}`),
  });
  expect(foreign.exit()).toBeUndefined();
});

test("two servers on two folders start at once", async () => {
  const servers = await Promise.all([start({ dir: join(dir, "a") }), start({ dir: join(dir, "b") })]);
  expect(servers[0]?.port).not.toBe(servers[1]?.port);
});

test("an interrupted first start is begun anew", async () => {
  await mkdir(join(dir, "pg/init-broken/data"), { recursive: true });
  const server = await start();
  expect(await readdir(join(dir, "pg"))).not.toContain("init-broken");
  expect(await query(server.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test("a port in use is named", async () => {
  const first = await start({ dir: join(dir, "a") });
  await expect(start({ dir: join(dir, "b"), port: first.port })).rejects.toMatchObject({
    kind: "portInUse",
    message: expect.stringContaining(String(first.port)),
  });
});

const damages: [string, (data: string) => Promise<void>][] = [
  ["without PG_VERSION", (data) => rm(join(data, "PG_VERSION"))],
  ["of another version", (data) => writeFile(join(data, "PG_VERSION"), "12\n")],
  ["with a torn control file", (data) => writeFile(join(data, "global/pg_control"), "torn")],
  ["without its password", (data) => rm(join(data, "../password"))],
  ["with another password", (data) => writeFile(join(data, "../password"), "another")],
];
test.each(damages)("a folder %s is called damaged and left as it is", async (_name, damage) => {
  await (await start()).stop();
  await damage(join(dir, "pg/data"));
  const before = (await readdir(join(dir, "pg/data"))).length;
  await expect(start()).rejects.toMatchObject({ kind: "folderDamaged" });
  expect((await readdir(join(dir, "pg/data"))).length).toBeGreaterThanOrEqual(before);
});

test("it starts, and starts again, in a folder that only its owner may enter", async () => {
  const closed = join(dir, "closed");
  await mkdir(closed, { mode: 0o700 });
  const where = { dir: join(closed, "pg") };
  const check = async (server: PostgresServer) => {
    expect(await query(server.adminUrl, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
    await server.stop();
  };
  await check(await start(where));
  await check(await start(where));
  await chmod(closed, 0o711); // As root the server changes its identity here, and its files their owner.
  await check(await start(where));
  await chmod(closed, 0o700);
  await check(await start(where));
});
