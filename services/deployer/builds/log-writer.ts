import type { Logger } from "../../kit/log.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { BUILD_LOG_BYTES, clipLine } from "../shared/clip-log.ts";
import { maskSecrets } from "../shared/mask-secrets.ts";
import { toStorableText } from "../terms/storable-text.ts";
import { appendLog, dropLog } from "./log-sql.ts";

const FLUSH_MS = 500;
/** A piece of this size is written at once. */
const PIECE_BYTES = 64 * 1024;

export type BuildLogWriter = {
  line: (text: string) => void;
  /** Waits for pieces that are being written; to be called before a transaction that closes the log. */
  drain: () => Promise<void>;
  /** Writes what is left. Failures are logged, but with a transaction `tx` they are thrown. */
  close: (tx?: Db) => Promise<void>;
};

/**
 * Writes a build's output to the database in pieces while it grows, so that every replica can show it at
 * most a second later. Values of `secrets` are masked, long lines cut, and the oldest pieces dropped once
 * the others alone fill the cap (docs/deployments.md#build-logs). Expects an empty log, unless its first piece
 * `replaces` an earlier one: a resumed build without further output keeps its log.
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
  let [storedBytes, firstSeq, pending, pendingBytes] = [0, 0, "", 0];
  let writing = Promise.resolve();

  const write = async (db: Db, text: string, bytes: number) => {
    if (replaces && sizes.length === 0) await dropLog(db, deploymentId);
    await appendLog(db, deploymentId, sizes.length, text);
    sizes.push(bytes);
    storedBytes += bytes;
    const before = firstSeq;
    while (storedBytes - sizes[firstSeq]! > BUILD_LOG_BYTES) storedBytes -= sizes[firstSeq++]!;
    if (firstSeq > before) await dropLog(db, deploymentId, firstSeq);
  };
  const flush = (tx?: Db) => {
    if (pending === "") return writing;
    const [text, bytes] = [pending, pendingBytes];
    [pending, pendingBytes] = ["", 0];
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
      pending += line;
      pendingBytes += Buffer.byteLength(line);
      if (pendingBytes >= PIECE_BYTES) void flush();
    },
    async drain() {
      clearInterval(timer);
      await writing;
    },
    async close(tx) {
      clearInterval(timer);
      await flush(tx);
    },
  };
}
