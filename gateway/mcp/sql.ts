import { type Db, execute } from "../../services/kit/postgres/db.ts";

/** Uses a confirmation up. Returns false if it was used before, at any gateway. */
export async function useConfirmation(db: Db, id: Buffer, expiresAt: Date): Promise<boolean> {
  const text = "insert into used_confirmations (id, expires_at) values ($1, $2) on conflict (id) do nothing";
  return (await execute(db, "confirmation_use", text, [id, expiresAt])) === 1;
}

/** Forgets confirmations that have expired: they are refused without being known. */
export function sweepConfirmations(db: Db, limit: number): Promise<number> {
  return execute(
    db,
    "confirmations_sweep",
    `delete from used_confirmations where id in
       (select id from used_confirmations where expires_at < now() - interval '1 minute' limit $1)`,
    [limit],
  );
}
