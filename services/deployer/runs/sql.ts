import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Where output of release commands begins among the pieces of a build's log: after all that a build can write. */
const FIRST_PIECE = 1_000_000;

export type ReleaseCommand = { command: string; started: boolean };

/** Returns the release command of a deployment that waits for it; undefined when it has ended, or finished it. */
export function findReleaseCommand(db: Db, deploymentId: string) {
  return one<ReleaseCommand>(
    db,
    "release_command_find",
    `select release_command as command, release_started_at is not null as started from deployments
     where id = $1 and status in ('queued', 'built') and release_command is not null and release_finished_at is null`,
    [deploymentId],
  );
}

/** Records that the command of the newest deployment starts. Returns 0 for any other, and when it has started before. */
export function markStarted(db: Db, deploymentId: string) {
  return execute(
    db,
    "release_command_start",
    `update deployments d set release_started_at = now(), release_left = true
     where d.id = $1 and d.status in ('queued', 'built') and d.release_started_at is null
       and d.version = (select max(version) from deployments where service_id = d.service_id)`,
    [deploymentId],
  );
}

/** Records that the command succeeded; the time to apply the deployment begins. Returns 0 when that has ended. */
export function markFinished(db: Db, deploymentId: string) {
  return execute(
    db,
    "release_command_finish",
    `update deployments set release_finished_at = now(), apply_started_at = null
     where id = $1 and status in ('queued', 'built') and release_finished_at is null`,
    [deploymentId],
  );
}

/** Records that the runtime holds nothing of the command. */
export function markRemoved(db: Db, deploymentId: string) {
  return execute(
    db,
    "release_command_removed",
    "update deployments set release_left = false where id = $1 and release_left",
    [deploymentId],
  );
}

/** Returns how many lines and bytes of the command's output the build log has. */
export async function countLines(db: Db, deploymentId: string): Promise<{ lines: number; bytes: number }> {
  const row = await one<{ lines: number; bytes: number }>(
    db,
    "release_command_lines",
    `select coalesce(max(seq - ${FIRST_PIECE} + length(text) - length(replace(text, e'\\n', ''))), 0)::int as lines,
       coalesce(sum(octet_length(text)), 0)::int as bytes
     from build_logs where deployment_id = $1 and seq >= ${FIRST_PIECE}`,
    [deploymentId],
  );
  return row!;
}

/** Returns the number of the piece that begins with a line of the command's output: the same for all who write it. */
export function pieceAt(line: number): number {
  return FIRST_PIECE + line;
}
