import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/** Whose log it is: a build's, with the release command of its deployment, or a run's. */
export type LogOf = "build" | "run";

const TABLES = {
  build: { name: "log", table: "build_logs", owner: "deployment_id", owners: "deployments" },
  run: { name: "run_log", table: "run_logs", owner: "run_id", owners: "runs" },
};

/** Writes a piece of a log, unless its owner is gone; `seq` counts from 0 in each build. */
export async function appendLog(
  db: Db,
  id: string,
  seq: number,
  text: string,
  of: LogOf = "build",
): Promise<void> {
  const { name, table, owner, owners } = TABLES[of];
  await execute(
    db,
    `${name}_append`,
    `insert into ${table} (${owner}, seq, text) select $1, $2, $3
     where exists (select from ${owners} where id = $1)
     on conflict (${owner}, seq) do update set text = excluded.text`,
    [id, seq, text],
  );
}

/** Drops the pieces of a build's log before `from`, or all. */
export async function dropLog(db: Db, deploymentId: string, from?: number): Promise<void> {
  await execute(
    db,
    "log_drop",
    "delete from build_logs where deployment_id = $1 and ($2::int is null or seq < $2)",
    [deploymentId, from],
  );
}

export async function readLog(db: Db, id: string, of: LogOf = "build"): Promise<string> {
  const { name, table, owner } = TABLES[of];
  const row = await one<{ text: string }>(
    db,
    `${name}_read`,
    `select coalesce(string_agg(text, '' order by seq), '') as text from ${table} where ${owner} = $1`,
    [id],
  );
  return row!.text;
}

/** Returns at most 32 pieces of a log that were written after a position, in order. */
export function listLogPieces(db: Db, id: string, position: number, of: LogOf = "build") {
  const { name, table, owner } = TABLES[of];
  return many<{ position: number; seq: number; text: string }>(
    db,
    `${name}_pieces`,
    `select position, seq, text from ${table}
     where ${owner} = $1 and position > $2 order by position limit 32`,
    [id, position],
  );
}
