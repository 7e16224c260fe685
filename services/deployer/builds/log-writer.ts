import type { Logger } from "../../kit/log.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { BUILD_LOG_BYTES, clipLine } from "../shared/clip-log.ts";
import { maskSecrets } from "../shared/mask-secrets.ts";
import { toStorableText } from "../shared/storable-text.ts";
import { appendLog, dropLog } from "./log-sql.ts";

const FLUSH_MS = 500;
/** A piece is written at once when it is this long. */
const PIECE_BYTES = 64 * 1024;

export type BuildLogWriter = {
  line: (text: string) => void;
  /** Waits for pieces that are being written: before a transaction, which waits for nothing outside it. */
  settle: () => Promise<void>;
  /** Writes what is left; into the transaction `tx` if there is one, and then rejects when it cannot. */
  close: (tx?: Db) => Promise<void>;
};

/**
 * Writes a build's output to the database in pieces while it grows, so that every replica can show it at
 * most a second later. Values of `secrets` are masked, long lines cut, and the oldest pieces dropped when
 * the rest alone is over the cap (docs/deployments.md#build-logs). Expects an empty log, unless its first piece
 * `replaces` what there is: then a build that says no more keeps its log.
 */
export function writeBuildLog(
  pool: Pool,
  deploymentId: string,
  secrets: readonly string[],
  log: Logger,
  replaces = false,
): BuildLogWriter {
  const mask = maskSecrets(secrets);
  const sizes: number[] = [];
  let [kept, first, waiting, waitingBytes] = [0, 0, "", 0];
  let writing = Promise.resolve();

  const write = async (db: Db, text: string, bytes: number) => {
    if (replaces && sizes.length === 0) await dropLog(db, deploymentId);
    await appendLog(db, deploymentId, sizes.length, text);
    sizes.push(bytes);
    kept += bytes;
    const before = first;
    while (kept - sizes[first]! > BUILD_LOG_BYTES) kept -= sizes[first++]!;
    if (first > before) await dropLog(db, deploymentId, first);
  };
  const flush = (tx?: Db) => {
    if (waiting === "") return writing;
    const [text, bytes] = [waiting, waitingBytes];
    [waiting, waitingBytes] = ["", 0];
    if (tx) return writing.then(() => write(tx, text, bytes));
    writing = writing
      .then(() => write(pool, text, bytes))
      .catch((error) => log.warn({ err: error, deploymentId }, "build output could not be written"));
    return writing;
  };
  const timer = setInterval(() => void flush(), FLUSH_MS);
  return {
    line(text) {
      const line = `${toStorableText(clipLine(mask(text)))}\n`;
      waiting += line;
      waitingBytes += Buffer.byteLength(line);
      if (waitingBytes >= PIECE_BYTES) void flush();
    },
    async settle() {
      clearInterval(timer);
      await writing;
    },
    async close(tx) {
      clearInterval(timer);
      await flush(tx);
    },
  };
}
