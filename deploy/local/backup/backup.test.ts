import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf } from "../../../test/support/archives.ts";
import { end, type Launched, launch } from "../../../test/support/launched.ts";

let folder: string;
let platform: Launched;
/** Whether this machine can make backups of postgres addons. */
const hasDumps = inject("hasDumps");
const inFolder = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-local-backup-"));
  platform = await launch({ dir: inFolder("first") });
});

afterAll(async () => {
  if (platform) await end(platform.child, "SIGTERM");
  await rm(folder, { recursive: true, force: true });
});

/** Runs a command as `npm run` does; returns its exit code and what it said. */
function run(command: "backup" | "restore", ...args: string[]): Promise<{ code: unknown; said: string }> {
  const program = join(import.meta.dirname, "main.ts");
  return new Promise((resolve) => {
    execFile(process.execPath, [program, command, ...args], (error, out, err) =>
      resolve({ code: error ? error.code : 0, said: out + err }),
    );
  });
}

async function must<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await platform.requestUntilAnswered(method, path, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Lists the tables of a database, after a statement. */
async function tables(url: string, statement = "select"): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  const { rows } = await client
    .query(
      "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'",
    )
    .finally(() => client.end());
  return rows.map(({ name }) => name);
}

test("a machine is restored elsewhere from a backup and its keys, and from neither alone", async () => {
  const create = async (path: string, name: string) =>
    `${path}/${(await must<{ id: string }>("POST", path, { name })).id}`;
  const P = await create(`/accounts/${platform.accountId}/projects`, "shop");
  const E = await create(`${P}/environments`, "live");
  const S = `${E}/services/web`;
  await must("POST", `${E}/services`, { name: "web", type: "web" });
  await must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await must("POST", `${E}/services`, { name: "cache", type: "redis" });
  await must("POST", `${S}/variables`, { name: "SECRET", value: "a-secret", sensitive: true });
  await must("POST", `${S}/variables`, { name: "DB", connection: { service: "db", key: "URL" } });
  type Target = { uploadUrl: string; contentType: string; archiveRef: string };
  const { uploadUrl, contentType, archiveRef } = await must<Target>("POST", `${S}/uploads`, {});
  const archive = await archiveOf([{ name: "index.html", content: "restored" }]);
  const put = { method: "PUT", headers: { "content-type": contentType }, body: new Uint8Array(archive) };
  expect((await fetch(uploadUrl, put)).status).toBe(200);
  const database = () => must<{ value: string }>("POST", `${S}/variables/DB/reveal`, {});
  const before = await eventually("the addon is ready", () => database().catch(() => undefined));
  async function deploy() {
    const { version } = await must<{ version: number }>("POST", `${S}/deploy-from-archive`, { archiveRef });
    await eventually("it is healthy", async () => {
      type Deployment = { status: string; healthyAt?: string };
      const deployed = await must<Deployment>("GET", `${S}/deployments/${version}`);
      if (deployed.status === "failed") throw new Error(`it failed: ${JSON.stringify(deployed)}`);
      return deployed.healthyAt;
    });
  }
  await deploy();
  await tables(before.value, "create table customers (name text)");
  const backup = hasDumps && (await must<{ id: string }>("POST", `${E}/services/db/backups`, {}));
  if (backup)
    await eventually("the addon is backed up", async () => {
      const path = `${E}/services/db/backups/${backup.id}`;
      return (await must<{ status: string }>("GET", path)).status === "succeeded";
    });

  // While it runs.
  const made = await run("backup", "--data", inFolder("first"), "--to", inFolder("backups"));
  expect(made).toMatchObject({ code: 0, said: expect.stringContaining("it does not contain the keys") });
  const from = ["--from", inFolder("backups")];
  expect(await run("restore", "--data", inFolder("first"), ...from)).toMatchObject({ code: 4 });
  await must("POST", `${S}/variables`, { name: "LATER", value: "x" });
  await end(platform.child, "SIGTERM");

  const lacking = await run("restore", "--data", inFolder("second"), ...from);
  expect(lacking).toMatchObject({
    code: 6,
    said: expect.stringContaining("secrets.json with the keys does not exist"),
  });
  const kept = (name: string) => readFile(join(inFolder("first"), name), "utf8");
  const secrets = JSON.parse(await kept("secrets.json"));
  const [id] = secrets.encryptionKeys.split(":");
  const others = { ...secrets, encryptionKeys: `${id}:${Buffer.alloc(32).toString("base64")}` };
  await mkdir(inFolder("second"));
  await writeFile(inFolder("second/secrets.json"), JSON.stringify(others), { mode: 0o600 });
  const other = await run("restore", "--data", inFolder("second"), ...from);
  expect(other).toMatchObject({ code: 1, said: expect.stringContaining("differ from those of the backup") });

  for (const name of ["secrets.json", "ports.json"])
    await writeFile(inFolder(`second/${name}`), await kept(name), { mode: 0o600 });
  const restored = await run("restore", "--data", inFolder("second"), ...from);
  expect(restored).toMatchObject({ code: 0, said: expect.stringContaining("It did not contain the keys") });
  platform = await launch({ dir: inFolder("second") });
  const { data } = await must<{ data: { name: string }[] }>("GET", `${S}/variables`);
  expect(data.map(({ name }) => name)).toEqual(["DB", "SECRET"]);
  expect(await must("POST", `${S}/variables/SECRET/reveal`, {})).toMatchObject({ value: "a-secret" });
  // Addons are there again, with their passwords, and empty until they are restored themselves.
  expect(await database()).toEqual(before);
  await eventually("the addon answers", () => tables(before.value).catch(() => undefined));
  expect(await tables(before.value)).toEqual([]);
  if (backup) {
    await must("POST", `${E}/services/db/restore`, { backup: backup.id, confirmImpact: true });
    await eventually("the addon has its data again", async () =>
      (await tables(before.value).catch((): string[] => [])).includes("customers"),
    );
  }
  const cache = () => must<{ status: string }>("GET", `${E}/services/cache`);
  await eventually("the other addon runs", async () => (await cache()).status === "running");
  // The build is gone; what was uploaded can be deployed again.
  const service = () => must<{ status: string; statusMessage?: string }>("GET", S);
  await eventually("the service says what it lacks", async () => {
    const { status, statusMessage = "" } = await service();
    return status === "crashed" && statusMessage;
  });
  await deploy();
  expect(await service()).toMatchObject({ status: "running" });

  // A stopped platform is backed up too, and old backups go.
  await end(platform.child, "SIGTERM");
  const again = await run("backup", "--data", inFolder("second"), "--to", inFolder("backups"), "--keep", "1");
  expect(again).toMatchObject({ code: 0 });
  expect(await readdir(inFolder("backups/backups"))).toHaveLength(1);
});

test("a command that lacks its folder says how it is used", async () => {
  expect(await run("backup")).toMatchObject({
    code: 2,
    said: expect.stringContaining("npm run backup -- --to DIR"),
  });
  expect(await run("restore", "--nowhere")).toMatchObject({ code: 2 });
});
