import { once } from "node:events";
import { connect } from "node:net";
import type { AddonAddress } from "./port.ts";
import { encode } from "./redis-client.ts";

export type Snapshot = { version: string; content: AsyncGenerator<Buffer> };

/** Why an RDB file is not restored. */
export const CANNOT_READ = "The redis server cannot read this backup, which may be of a newer version.";

const IDLE_MS = 60_000;
/** What says of which version a file is stands at its beginning. */
const HEAD_BYTES = 512;
const NEWLINE = 10;

/**
 * Asks a redis server for all its data, as replicas do: as an RDB file, of one moment. Throws, also while the content is
 * read, when it does not all arrive.
 */
export async function readSnapshot(
  server: AddonAddress,
  password: string,
  signal: AbortSignal,
): Promise<Snapshot> {
  const content = receive(server, password, signal);
  const head: Buffer[] = [];
  for (let size = 0; size < HEAD_BYTES; ) {
    const { value, done } = await content.next();
    if (done) break;
    head.push(value);
    size += value.length;
  }
  const beginning = Buffer.concat(head);
  const text = beginning.subarray(0, HEAD_BYTES).toString("latin1");
  if (!/^(?:REDIS|VALKEY)\d/.test(text)) throw new Error("the redis server did not send an RDB file");
  // The name of a field, and a byte with the length of its value, come before it.
  const version = /(?:redis|valkey)-ver.(\d[\d.]*)/s.exec(text)?.[1] ?? "unknown";
  return { version, content: joined(beginning, content) };
}

async function* joined(beginning: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield beginning;
  yield* rest;
}

async function* receive(server: AddonAddress, password: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  signal.throwIfAborted();
  const socket = connect(server);
  const abort = () => socket.destroy(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  // Newlines come while the file is being made.
  socket.setTimeout(IDLE_MS, () => socket.destroy(new Error("the redis server does not answer")));
  try {
    await once(socket, "connect");
    socket.write(encode(["AUTH", password]));
    let left: number | undefined;
    let line = Buffer.alloc(0);
    for await (let part of socket as AsyncIterable<Buffer>) {
      while (left === undefined && part.length > 0) {
        const end = part.indexOf(NEWLINE) + 1;
        line = Buffer.concat([line, end > 0 ? part.subarray(0, end) : part]);
        part = end > 0 ? part.subarray(end) : Buffer.alloc(0);
        if (end === 0) continue;
        const text = line.toString("latin1");
        line = Buffer.alloc(0);
        // Only now: a server refuses it while it has something to answer.
        if (text === "+OK\r\n") socket.write(encode(["SYNC"]));
        else left = sizeIn(text);
      }
      if (left === undefined || part.length === 0) continue;
      const own = part.subarray(0, left);
      left -= own.length;
      yield own;
      // What follows are the commands since then.
      if (left === 0) return;
    }
    throw new Error("the redis server closed the connection");
  } finally {
    signal.removeEventListener("abort", abort);
    socket.destroy();
  }
}

/** Returns how many bytes follow a line; undefined before the one that says so. Throws when it is a refusal. */
function sizeIn(line: string): number | undefined {
  const [, size] = /^\$(\d+)\r\n$/.exec(line) ?? [];
  if (size !== undefined) return Number(size);
  if (line === "\n") return undefined;
  throw new Error("the redis server refused to send its data");
}
