import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { programs } from "../../deploy/local/programs/programs.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { migrate } from "../../services/kit/postgres/migrate.ts";
import { end, type Launched, launch } from "../support/launched.ts";

const ROOT = join(import.meta.dirname, "../..");
const WIDENED = { "9001-widened.sql": "select 1;" };
let platform: Launched;

beforeAll(async () => {
  platform = await launch();
});

afterAll(() => platform?.stop());

/** Migrates the schema of every program as a newer version does, which has these migrations more. */
async function upgradeSchemas(more: Record<string, string>): Promise<void> {
  const read = async (file: string) => JSON.parse(await readFile(join(platform.data, file), "utf8"));
  const [{ databasePasswords }, { postgres }] = await Promise.all([read("secrets.json"), read("ports.json")]);
  for (const { name, folder } of programs) {
    const newer = await mkdtemp(join(tmpdir(), "berth-newer-"));
    const url = `postgres://${name}:${databasePasswords[name]}@127.0.0.1:${postgres}/berth`;
    const pool = createPool(url);
    try {
      await widen(pool);
      await cp(join(ROOT, folder, "migrations"), newer, { recursive: true });
      for (const [file, sql] of Object.entries(more)) await writeFile(join(newer, file), sql);
      expect((await migrate(pool, newer)).at(-1)).toBe(Object.keys(more).at(-1));
    } finally {
      await pool.end();
      await rm(newer, { recursive: true });
    }
  }
}

/** Gives every table a column more. Each by itself: a transaction that locks several may deadlock with what runs. */
async function widen(pool: Pool): Promise<void> {
  const { rows } = await pool.query("select tablename from pg_tables where schemaname = current_schema()");
  for (const { tablename } of rows)
    await pool.query(`alter table ${tablename} add column if not exists newer text not null default 'new'`);
}

/** Asks something of each service that it answers from its schema, and changes something in three. */
async function use(name: string): Promise<void> {
  const A = `/accounts/${platform.accountId}`;
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await platform.requestUntilAnswered(method, path, body);
    expect(`${method} ${path}: ${answer.status}`).toMatch(/: 20[01]$/);
    return answer.body as { id: string };
  };
  const { id } = await ask("POST", `${A}/projects`, { name });
  await ask("POST", "/me/tokens", { name });
  await ask("POST", `${A}/projects/${id}/variables`, { name: "A", value: "1" });
  for (const path of ["members", "projects", `projects/${id}/variables`, "compute-usage"])
    await ask("GET", `${A}/${path}`);
  await ask("GET", "/notifications");
}

test("a version goes on while its schemas are widened for the next one, and restarts on them and serves", async () => {
  await use("before");
  await upgradeSchemas(WIDENED);
  await use("running");
  await Promise.all(programs.map(({ folder }) => platform.kill(folder)));
  await use("restarted");
  await end(platform.child, "SIGTERM");
  platform = await launch({ dir: platform.data });
  await use("started");
});

test("npm start says so when the next version has contracted a schema of the data folder", async () => {
  await upgradeSchemas({ ...WIDENED, "9002-narrowed.sql": "-- oldest program: 9001\nselect 1;" });
  await end(platform.child, "SIGTERM");
  await expect(launch({ dir: platform.data })).rejects.toThrow(
    /exited with code 9:.*This version is too old for the schema \w+: it knows the migrations .* Start a newer version/s,
  );
});
