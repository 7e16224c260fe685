import { randomBytes } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import { programs } from "../../../deploy/local/programs/programs.ts";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { migrate } from "../../../services/kit/postgres/migrate.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** Creates a database with every program's schema, migrated, of which tests make copies; `drop` removes it. */
export async function createTemplateDatabase(adminUrl: string) {
  const name = `t_template_${randomBytes(6).toString("hex")}`;
  const asAdmin = async (statement: string) => {
    const client = new pg.Client({ connectionString: adminUrl });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  await asAdmin(`create database ${name}`);
  for (const program of programs) {
    const pool = createPool(`${url.href}?options=-c%20search_path%3D${program.name}`, { max: 1 });
    await pool.query(`create schema ${program.name}`);
    await migrate(pool, join(ROOT, program.folder, "migrations"));
    await pool.end();
  }
  return { name, drop: () => asAdmin(`drop database ${name} with (force)`) };
}
