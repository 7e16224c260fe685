import type { ServerResponse } from "node:http";

/**
 * Writes a piece of a response together with others of the same turn. Returns false when the connection is full: nothing
 * more should be written until `drain`, which then follows.
 */
export function writeTogether(res: ServerResponse, piece: Buffer | string): boolean {
  // To a full connection Node has to write without a delay: only then it counts, and `drain` follows.
  if (res.writableCorked === 0 && !res.socket?.writableNeedDrain) {
    res.cork();
    process.nextTick(() => flush(res));
  }
  if (res.write(piece)) return true;
  // So much is held back here, which says nothing of the connection: `drain` follows only if that is full, too.
  flush(res);
  return res.socket?.writableNeedDrain === false;
}

/** Sends what is held back. Before the end of a response: otherwise Node sends the end first. */
export function flush(res: ServerResponse): void {
  if (res.writableCorked > 0) res.uncork();
}
