import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/** Writes a piece of a build's log, unless the deployment is gone; `seq` counts from 0 in each build. */
export async function appendLog(db: Db, deploymentId: string, seq: number, text: string): Promise<void> {
  await execute(
    db,
    "log_append",
    `insert into build_logs (deployment_id, seq, text) select $1, $2, $3
     where exists (select from deployments where id = $1)
     on conflict (deployment_id, seq) do update set text = excluded.text`,
    [deploymentId, seq, text],
  );
}

/** Drops the pieces before `from`, or all. */
export async function dropLog(db: Db, deploymentId: string, from?: number): Promise<void> {
  await execute(
    db,
    "log_drop",
    "delete from build_logs where deployment_id = $1 and ($2::int is null or seq < $2)",
    [deploymentId, from],
  );
}

export async function readLog(db: Db, deploymentId: string): Promise<string> {
  const row = await one<{ text: string }>(
    db,
    "log_read",
    "select coalesce(string_agg(text, '' order by seq), '') as text from build_logs where deployment_id = $1",
    [deploymentId],
  );
  return row!.text;
}

/** Returns at most 32 pieces of a build's log that were written after a position, in order. */
export function listLogPieces(db: Db, deploymentId: string, position: number) {
  return many<{ position: number; seq: number; text: string }>(
    db,
    "log_pieces",
    `select position, seq, text from build_logs
     where deployment_id = $1 and position > $2 order by position limit 32`,
    [deploymentId, position],
  );
}
