import { expect, test } from "vitest";
import { createPool } from "../postgres/db.ts";
import { migratedDatabase } from "../testing/testing.ts";
import { takeMails } from "./sql.ts";

test("no more mails are taken than were asked for, also when there were hardly any a moment ago", async () => {
  const database = await migratedDatabase();
  const pool = createPool(database.url("notifications"), { max: 1 });
  const insert = (from: number, to: number) =>
    pool.query(
      `insert into mails (id, kind, address, data, due_at)
       select 'mail_' || n, 'test', n || '@example.com', '{}', now() - (100 - n) * interval '1 second'
       from generate_series($1::int, $2::int) n`,
      [from, to],
    );
  // PostgreSQL then plans for one row: with a loop over the rows, and in it the selection of those that are due.
  await insert(1, 1);
  await pool.query("analyze mails");
  await insert(2, 50);
  const taken = await takeMails(pool, "", { limit: 5, leaseSeconds: 60 });
  expect(taken.map(({ id }) => id).sort()).toEqual(["mail_1", "mail_2", "mail_3", "mail_4", "mail_5"]);
  await pool.end();
  await database.drop();
});
