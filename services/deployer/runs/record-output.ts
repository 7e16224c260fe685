import type { Db, Pool } from "../../kit/postgres/db.ts";
import { appendLog, type LogOf } from "../builds/log-sql.ts";
import { BUILD_LOG_BYTES, clipLine } from "../shared/clip-log.ts";
import { maskSecrets } from "../shared/mask-secrets.ts";
import { toStorableText } from "../terms/storable-text.ts";
import type { ResolveVariables } from "../variables/variables-client.ts";

/** Where the output of a command is kept. */
export type OutputLog = {
  id: string;
  of: LogOf;
  /** Returns how many lines and bytes are there. */
  count: (db: Db, id: string) => Promise<{ lines: number; bytes: number }>;
  /** Returns the number of the piece that begins with a line: the same for all who write it. */
  pieceAt: (line: number) => number;
};

/**
 * Adds to a log what a command has written since, up to as much as a build's log has. Returns what masks the values of
 * secrets, if there is output: of a command that runs, only what is new, as it is looked at every second and the values
 * are another service's. Two processes write the same.
 */
export async function recordOutput(
  { pool, resolve }: { pool: Pool; resolve: ResolveVariables },
  serviceId: string,
  log: OutputLog,
  lines: string[],
  running: boolean,
) {
  const kept = lines.length === 0 ? undefined : await log.count(pool, log.id);
  if (!kept || (running && (lines.length <= kept.lines || kept.bytes >= BUILD_LOG_BYTES))) return undefined;
  const { data } = await resolve(serviceId);
  const mask = maskSecrets(data.filter(({ sensitive }) => sensitive).map(({ value }) => value));
  const clean = (line: string, bytes?: number) => toStorableText(clipLine(mask(line), bytes));
  let left = BUILD_LOG_BYTES - kept.bytes;
  const text = lines
    .slice(kept.lines)
    .map((line) => `${clean(line)}\n`)
    .filter((line) => {
      const isKept = left > 0;
      left -= Buffer.byteLength(line);
      return isKept;
    });
  if (text.length > 0) await appendLog(pool, log.id, log.pieceAt(kept.lines), text.join(""), log.of);
  return clean;
}
