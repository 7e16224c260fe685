import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { Platform } from "./platform.ts";

/** Creates an empty database in the platform's PostgreSQL, so that both sides of a ratio share one server. */
export async function scratchDatabase(platform: Platform) {
  const url = await superuser(platform);
  const name = `bench_${randomBytes(4).toString("hex")}`;
  await once(url("postgres"), `create database ${name}`);
  return { url: url(name), drop: () => once(url("postgres"), `drop database ${name} with (force)`) };
}

/** Returns a function to the superuser's URL of a database in the platform's PostgreSQL. */
export async function superuser(platform: Platform): Promise<(database: string) => string> {
  const dir = join(platform.dir, "postgres");
  const port = (await readFile(join(dir, "data", "postmaster.pid"), "utf8")).split("\n")[3];
  const password = (await readFile(join(dir, "password"), "utf8")).trim();
  return (database) => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}

async function once(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** Does what the server would otherwise begin by itself, while something is measured, after many rows were inserted. */
export async function settle(client: pg.Client): Promise<void> {
  await client.query("vacuum analyze");
  await client.query("checkpoint");
}
