import { join } from "node:path";
import { insertService } from "../../../../services/deployer/projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../../../../services/deployer/projects/sql.ts";
import { createPool, type Tx } from "../../../../services/kit/postgres/db.ts";
import { migrate } from "../../../../services/kit/postgres/migrate.ts";
import { testDatabase } from "../../../../services/kit/testing/testing.ts";
import { insertServices } from "../../schedule/services.ts";
import type { Database, Row } from "../../world/database.ts";
import { CONFIG, SCOPE } from "./calls.ts";

// The PostgreSQL that the mirror is compared with.

const TABLES = ["services", "work", "deployments", "built_images", "removed"] as const;

/** Starts a database of the deployer whose time is the setting `model.now`. */
export async function startPostgres() {
  const database = await testDatabase(["deployer"]);
  // The schema comes first: its now() is the one below, in defaults as well.
  const url = database.url("deployer").replace("search_path%3Ddeployer", "search_path%3Ddeployer,pg_catalog");
  const first = createPool(url, { max: 1 });
  for (const name of ["now", "clock_timestamp"])
    await first.query(`create function deployer.${name}() returns timestamptz language sql stable as
      $$ select to_timestamp(current_setting('model.now')::float8 / 1000) $$`);
  await first.query(`alter database ${database.name} set model.now = '0'`);
  await first.end();
  const pool = createPool(url, { max: 2 });
  await migrate(pool, join(import.meta.dirname, "../../../../services/deployer/migrations"));
  const [sql, owners] = [await pool.connect(), await pool.connect()];
  return {
    /** The session of the statements. */
    sql,
    /** The session that holds the advisory locks of lease owners. */
    owners,
    async stop() {
      sql.release();
      owners.release();
      await pool.end();
      await database.drop();
    },
  };
}

/** Makes both databases hold two services without deployments, and nothing else. */
export async function resetServices(sql: Tx, mirrored: Database): Promise<void> {
  await sql.query(
    "truncate projects, environments, services, work, deployments, built_images, removed cascade",
  );
  await insertProject(sql, "prj", "acc", "shop");
  await insertEnvironment(sql, "env", "acc", "prj", "production");
  for (const n of [0, 1])
    await insertService(sql, {
      ...SCOPE,
      ...{ id: `svc_${n}`, name: `web${n}`, type: "web", source: {}, config: CONFIG, staged: false },
      addonState: undefined,
    });
  insertServices(mirrored, 2);
}

/** Returns the rows of each table on both sides, in the columns that the mirror has. */
export async function readTables(sql: Tx, mirrored: Database) {
  const { rows } = await sql.query<Record<(typeof TABLES)[number], Row[]>>(
    `select ${TABLES.map(
      (name) => `(select coalesce(jsonb_agg(to_jsonb(t)), '[]') from ${name} t) as ${name}`,
    ).join(", ")}`,
  );
  return TABLES.map((table) => ({
    table,
    ...inSameColumns([...mirrored.committed[table].values()], rows[0]![table]),
  }));
}

function inSameColumns(mirrored: Row[], actual: Row[]): { mirrored: unknown; actual: unknown } {
  const columns = Object.keys(mirrored[0] ?? {}).filter((name) => name !== "applied_variables");
  const cut = (rows: Row[]) =>
    comparable(rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))));
  return {
    mirrored: cut(mirrored),
    actual: cut(actual.map((row) => ({ ...row, id: row.id ?? row.digest ?? row.service_id }))),
  };
}

const TIMES = /(_at|_since|_until|At|Since)$/;

/** Returns a value in a form that both sides share: times in ms, no undefined, rows in one order. */
export function comparable(value: unknown): unknown {
  if (Array.isArray(value)) {
    const text = new Map(value.map((one) => [one, JSON.stringify(comparable(one))]));
    return value.toSorted((one, other) => (text.get(one)! < text.get(other)! ? -1 : 1)).map(comparable);
  }
  if (typeof value !== "object" || value === null) return value ?? null;
  const members = Object.entries(value)
    .filter(([name, one]) => one !== undefined && name !== "set_config")
    .map(([name, one]) => [
      name,
      TIMES.test(name) && typeof one === "string" ? Date.parse(one) : comparable(one),
    ]);
  return Object.fromEntries(members.sort());
}
