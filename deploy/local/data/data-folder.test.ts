import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { parseToken } from "../../../services/kit/crypto/bearer-token.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { addonRole, database, prepareDatabase } from "../postgres/database.ts";
import { type PostgresServer, startPostgres } from "../postgres/postgres.ts";
import { choosePorts, resetDataFolder, takeDataFolder } from "./data-folder.ts";
import { type AskedAddresses, choosePublicAddresses } from "./public-addresses.ts";
import { readSecrets, secretsFile, writeSafely } from "./secrets.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-data-"));
  // Registered first and so called last: what a test started in the folder has ended by then.
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
});

const roles = ["variables", "identity"];

async function take() {
  const { folder, lock } = await takeDataFolder(dir);
  onTestFinished(() => lock.release());
  return folder;
}

test("secrets are made once, and only their owner can read them", async () => {
  const first = await readSecrets(dir, roles, true);
  expect((await stat(secretsFile(dir))).mode & 0o777).toBe(0o600);
  expect(await readSecrets(dir, roles, false)).toEqual(first);
  const more = await readSecrets(dir, [...roles, "billing"], false);
  expect(more).toEqual({ ...first, databasePasswords: more.databasePasswords });
  expect(more.databasePasswords).toMatchObject(first.databasePasswords);
  expect(more.databasePasswords.billing).toMatch(/^[\w-]{32}$/);
});

test("data whose secrets are lost or torn is not started with new ones", async () => {
  await expect(readSecrets(dir, roles, false)).rejects.toMatchObject({ kind: "folderDamaged" });
  await writeFile(secretsFile(dir), '{"encryptionKeys":');
  await expect(readSecrets(dir, roles, false)).rejects.toMatchObject({ kind: "folderDamaged" });
  await expect(readSecrets(dir, roles, true)).rejects.toMatchObject({ kind: "folderDamaged" });
});

test("the owner token has the documented form", async () => {
  const { ownerToken } = await readSecrets(dir, roles, true);
  expect(parseToken(ownerToken)).toBe("pat");
});

/** Listens on a port until the test ends. */
async function occupy(port: number) {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
}

test("ports stay the same over starts, a usual one that is free again included; a taken one moves, and that is said", async () => {
  const folder = await take();
  const usual = { gateway: await freePort(), router: await freePort() };
  await occupy(usual.gateway);
  const names = ["gateway", "router", "nats"];
  const first = await choosePorts(folder, names, usual);
  const { gateway, router, nats } = first.ports;
  expect(first.moved).toEqual([{ name: "gateway", from: usual.gateway, to: gateway }]);
  expect(router).toBe(usual.router);
  const later = { gateway: await freePort(), router: await freePort() };
  expect(await choosePorts(folder, names, later)).toEqual({ ports: first.ports, moved: [] });
  await occupy(nats!);
  const { ports, moved } = await choosePorts(folder, names, later);
  expect(moved).toEqual([{ name: "nats", from: nats, to: ports.nats }]);
  expect(ports).toMatchObject({ gateway, router });
});

test("the API never moves by itself: applications know it by its address; --port moves it", async () => {
  const folder = await take();
  const { ports } = await choosePorts(folder, ["gateway", "router"], {});
  await occupy(ports.gateway!);
  const taken = { kind: "portInUse", message: expect.stringContaining("--port") };
  await expect(choosePorts(folder, ["gateway", "router"], {})).rejects.toMatchObject(taken);
  const asked = await freePort();
  const moved = await choosePorts(folder, ["gateway", "router"], {}, { requested: asked });
  expect(moved).toEqual({ ports: { gateway: asked, router: expect.any(Number) }, moved: expect.any(Array) });
  expect(await choosePorts(folder, ["gateway", "router"], {})).toEqual({ ports: moved.ports, moved: [] });
});

test("behind a proxy, apps do not move either: it sends their requests to the port of before", async () => {
  const folder = await take();
  const { ports } = await choosePorts(folder, ["gateway", "router"], {}, { behindProxy: true });
  await occupy(ports.router!);
  const taken = { kind: "portInUse", message: expect.stringContaining(`Port ${ports.router} on 127.0.0.1`) };
  const again = choosePorts(folder, ["gateway", "router"], {}, { behindProxy: true });
  await expect(again).rejects.toMatchObject(taken);
  const { moved } = await choosePorts(folder, ["gateway", "router"], {});
  expect(moved).toMatchObject([{ name: "router", from: ports.router }]);
});

test("public addresses are kept until others are asked for, or none; unreadable ones are not replaced without a word", async () => {
  const folder = await take();
  const choose = (asked: AskedAddresses) => choosePublicAddresses(folder, asked);
  const both = { publicUrl: "https://berth.example.com", appsDomain: "apps.example.com" };
  expect(await choose({})).toEqual({});
  expect(await choose(both)).toEqual(both);
  expect(await choose({})).toEqual(both);
  expect(await choose({ appsDomain: "apps.example.org" })).toEqual({
    ...both,
    appsDomain: "apps.example.org",
  });
  expect(await choose({ appsDomain: null })).toEqual({ publicUrl: both.publicUrl });
  expect(await choose({})).toEqual({ publicUrl: both.publicUrl });
  await writeFile(join(dir, "public.json"), '{"publicUrl":');
  await expect(choose({})).rejects.toMatchObject({ kind: "folderDamaged" });
  await rm(join(dir, "public.json"));
  await mkdir(join(dir, "public.json"));
  await expect(choose({})).rejects.toMatchObject({ kind: "folderDamaged" });
});

test("unreadable ports are not replaced by others without a word", async () => {
  const folder = await take();
  await writeFile(join(dir, "ports.json"), '{"gateway":');
  await expect(choosePorts(folder, ["gateway"], {})).rejects.toMatchObject({ kind: "folderDamaged" });
  await rm(join(dir, "ports.json"));
  await mkdir(join(dir, "ports.json"));
  await expect(choosePorts(folder, ["gateway"], {})).rejects.toMatchObject({ kind: "folderDamaged" });
});

test("a reset deletes what the platform keeps and nothing else", async () => {
  const folder = await take();
  await readSecrets(dir, roles, true);
  for (const path of [folder.postgres, folder.nats, folder.deployer]) await mkdir(path);
  await writeFile(join(dir, "somebody-elses.txt"), "kept");
  await resetDataFolder(folder);
  expect((await readdir(dir)).sort()).toEqual(["holder.json", "lock", "somebody-elses.txt"]);
});

async function server(): Promise<PostgresServer> {
  const started = await startPostgres({ dir: join(dir, "postgres"), durable: false });
  onTestFinished(() => started.stop());
  return started;
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test("each service gets a schema of its own and cannot look into another's", async () => {
  await take();
  const postgres = await server();
  const secrets = await readSecrets(dir, [...roles, addonRole], true);
  await prepareDatabase(postgres, roles, secrets, dir);
  await prepareDatabase(postgres, roles, secrets, dir);
  const url = (role: string, name = database) => postgres.url(name, role, secrets.databasePasswords[role]);
  await query(url("variables"), "CREATE TABLE secret_things AS SELECT 1 AS n");
  const where = "SELECT schemaname FROM pg_tables WHERE tablename = 'secret_things'";
  expect(await query(url("variables"), where)).toEqual([{ schemaname: "variables" }]);
  const denied = { code: "42501" };
  await expect(query(url("identity"), "SELECT * FROM variables.secret_things")).rejects.toMatchObject(denied);
  await expect(query(url("identity", "postgres"), "SELECT 1")).rejects.toMatchObject(denied);
});

test("the addon role makes databases with owners of their own, and cannot enter the platform's", async () => {
  await take();
  const postgres = await server();
  const secrets = await readSecrets(dir, [...roles, addonRole], true);
  await prepareDatabase(postgres, roles, secrets, dir);
  const url = (name: string) => postgres.url(name, addonRole, secrets.databasePasswords[addonRole]);
  await query(url("postgres"), "CREATE ROLE app LOGIN PASSWORD 'app'");
  await query(url("postgres"), "CREATE DATABASE app OWNER app");
  expect(await query(postgres.url("app", "app", "app"), "SELECT current_user")).toEqual([
    { current_user: "app" },
  ]);
  const denied = { code: "42501" };
  await expect(query(url(database), "SELECT 1")).rejects.toMatchObject(denied);
  await expect(query(postgres.url(database, "app", "app"), "SELECT 1")).rejects.toMatchObject(denied);
});

test("a key that the data was not encrypted with is refused; one that is added is taken", async () => {
  await take();
  const postgres = await server();
  const secrets = await readSecrets(dir, [...roles, addonRole], true);
  const start = (encryptionKeys: string) =>
    prepareDatabase(postgres, roles, { ...secrets, encryptionKeys }, dir);
  const [id] = secrets.encryptionKeys.split(":");
  const other = Buffer.alloc(32, 1).toString("base64");
  await start(secrets.encryptionKeys);
  const url = postgres.url(database, "variables", secrets.databasePasswords.variables);
  await query(url, "CREATE TABLE data_keys AS SELECT 'of an account' AS wrapped");
  await expect(start(`${id}:${other}`)).rejects.toMatchObject({ kind: "wrongKey" });
  await expect(start(`new:${other}`)).rejects.toMatchObject({ kind: "wrongKey" });
  await start(`new:${other},${secrets.encryptionKeys}`);
  await start(`new:${other}`);
});

test("a file is replaced in one step and stays private", async () => {
  const file = join(dir, "x.json");
  await writeFile(file, "old", { mode: 0o644 });
  await writeSafely(file, "new");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(dir)).toEqual(["x.json"]);
});
