import { randomBytes } from "node:crypto";
import pg from "pg";
import type { ObjectStore } from "../../../store/port.ts";
import { WITHOUT_ROLES } from "../../port.ts";
import { scramVerifier } from "../../scram.ts";
import { feed } from "../client-program.ts";
import { asAdmin, closeToOthers, copiesOf } from "./shared-server.ts";

type Deps = {
  adminUrl: string;
  store: ObjectStore;
  /** Returns the programs of the server's version. */
  program: () => Promise<{ restore: string }>;
};

/** All that has rows, as pg_dump writes them. */
const TABLES = `select format('%I.%I', n.nspname, c.relname) as name from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'm') and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema' order by 1`;

/**
 * Proofs of dumps: each is restored to a database of its own, whose owner is a role that has nothing else, and read. Both
 * have a name that follows from the addon, by which they are removed.
 */
export function createPostgresProofs({ adminUrl, store, program }: Deps) {
  const removeProof = (serviceId: string) => {
    const { proof } = copiesOf(serviceId);
    return asAdmin(adminUrl, async (admin) => {
      await admin.query(`drop database if exists "${proof}" with (force)`);
      await admin.query(`drop role if exists "${proof}"`);
    });
  };

  return {
    removeProof,

    async prove(serviceId: string, key: string, signal: AbortSignal): Promise<{ counted: number }> {
      const { restore: file } = await program();
      const { proof } = copiesOf(serviceId);
      const password = randomBytes(24).toString("base64url");
      await removeProof(serviceId);
      try {
        await asAdmin(adminUrl, async (admin) => {
          await admin.query(`create role "${proof}" login password '${scramVerifier(password)}'`);
          await admin.query(`grant "${proof}" to current_user`);
          await admin.query(`create database "${proof}" owner "${proof}" template template0`);
          await closeToOthers(admin, proof);
        });
        const url = new URL(adminUrl);
        [url.username, url.password, url.pathname] = [proof, "", `/${proof}`];
        const args = [`--dbname=${url}`, "--no-password", "--exit-on-error", ...WITHOUT_ROLES];
        const env = { PATH: process.env.PATH ?? "", PGPASSWORD: password, PGCONNECT_TIMEOUT: "10" };
        await feed({ file, args, env, signal }, await store.get(key));
        return { counted: await countRows(url, password, signal) };
      } finally {
        await removeProof(serviceId);
      }
    },
  };
}

/** Reads all tables, and returns how many rows they have. */
async function countRows(url: URL, password: string, signal: AbortSignal): Promise<number> {
  signal.throwIfAborted();
  const login = new URL(url);
  login.password = password;
  const reader = new pg.Client({ connectionString: login.href, connectionTimeoutMillis: 10_000 });
  reader.on("error", () => {});
  const abort = () => void reader.end().catch(() => {});
  signal.addEventListener("abort", abort, { once: true });
  try {
    await reader.connect();
    const { rows } = await reader.query<{ name: string }>(TABLES);
    let counted = 0;
    for (const { name } of rows)
      counted += Number((await reader.query(`select pg_catalog.count(*) as n from ${name}`)).rows[0].n);
    return counted;
  } finally {
    signal.removeEventListener("abort", abort);
    await reader.end().catch(() => {});
  }
}
