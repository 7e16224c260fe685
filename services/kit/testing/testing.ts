import { randomBytes } from "node:crypto";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import pg from "pg";
import { inject } from "vitest";
import { CALLER_HEADER, type Caller, signCaller } from "../rpc/caller-token.ts";

/** The caller-signing key of tests. */
export const testKeys = [Buffer.alloc(32, 7)];

/** A database of its own with one role and one schema for each named service, as the launcher makes it. */
export async function testDatabase(services: string[]) {
  const database = await createDatabase();
  await asAdmin(
    database.url("postgres"),
    services.map((service) => `create schema ${service}`),
  );
  return database;
}

/** A database of its own in which every service's schema is migrated: a copy takes a quarter of a migration's time. */
export const migratedDatabase = () =>
  createDatabase(` template ${inject("templateDatabase")} strategy file_copy`);

async function createDatabase(how = "") {
  const admin = new URL(inject("postgresAdminUrl"));
  const name = `t_${randomBytes(6).toString("hex")}`;
  await asAdmin(admin.href, [`create database ${name}${how}`]);
  const inside = new URL(admin);
  inside.pathname = `/${name}`;
  return {
    /** Connection URL of one service: its own schema is the search path. A busy machine may take long to connect. */
    url: (service: string) => `${inside.href}?connect_timeout=20&options=-c%20search_path%3D${service}`,
    name,
    drop: () => asAdmin(admin.href, [`drop database ${name} with (force)`]),
  };
}

async function asAdmin(url: string, statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** A typed client of a service under test that acts as the given caller, with messages as other services send them. */
export function clientAs<S extends DescService>(
  service: S,
  port: number,
  caller: Partial<Caller>,
  useBinaryFormat = true,
): Client<S> {
  const full: Caller = { kind: "user", id: "usr_test", ip: "127.0.0.1", ...caller };
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl: `http://127.0.0.1:${port}`,
    useBinaryFormat,
    interceptors: [
      (next) => (req) => {
        req.header.set(CALLER_HEADER, signCaller(testKeys, full));
        return next(req);
      },
    ],
  });
  return createClient(service, transport);
}

/** Waits until `probe` gives something other than undefined or false; throws `what` after two minutes, as a busy machine needs. */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined | null | false>,
  patience = inject("patienceMs") ?? 120_000,
): Promise<T> {
  const until = Date.now() + patience;
  while (Date.now() < until) {
    const found = await probe();
    if (found !== undefined && found !== null && found !== false) return found as T;
    await new Promise((next) => setTimeout(next, 25));
  }
  throw new Error(`did not happen within ${patience / 1_000} s: ${what}`);
}
