import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Suppresses mail to an address for 7 days, and deletes expired suppressions. */
export async function suppress(db: Db, address: string): Promise<void> {
  await execute(db, "suppressions_expire", "delete from suppressions where until < now()", []);
  await execute(
    db,
    "suppress",
    `insert into suppressions (address, until) values (lower($1), now() + interval '7 days')
     on conflict (address) do update set until = excluded.until`,
    [address],
  );
}

export async function isSuppressed(db: Db, address: string): Promise<boolean> {
  const text = "select 1 from suppressions where address = lower($1) and until > now()";
  return (await one(db, "is_suppressed", text, [address])) !== undefined;
}
