import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { testDatabase } from "../../kit/testing/testing.ts";

test("of the users of an older version only the first owner's e-mail is verified, also while that version still runs", async () => {
  const database = await testDatabase(["identity"]);
  const pool = createPool(database.url("identity"));
  const older = await mkdtemp(join(tmpdir(), "berth-migrations-"));
  const folder = join(import.meta.dirname, "../migrations");
  const addUser = (id: string) =>
    pool.query("insert into users (id, email, display_name, password_hash) values ($1, $2, $1, 'x')", [
      id,
      `${id}@example.com`,
    ]);
  try {
    for (const name of ["0001-identity.sql", "0002-known-networks.sql"])
      await cp(join(folder, name), join(older, name));
    await migrate(pool, older);
    await addUser("usr_first");
    await addUser("usr_made");
    await pool.query("insert into accounts (id, handle, display_name) values ('acc_1', 'first', 'first')");
    await pool.query("insert into bootstrap (email, user_id, account_id) values ('e', 'usr_first', 'acc_1')");
    await migrate(pool, folder);
    await addUser("usr_late");
    const { rows } = await pool.query("select id from users where email_verified_at is not null");
    expect(rows).toEqual([{ id: "usr_first" }]);
  } finally {
    await pool.end();
    await Promise.all([database.drop(), rm(older, { recursive: true })]);
  }
});
