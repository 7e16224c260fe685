import { Transform } from "node:stream";
import { encode } from "../redis-client.ts";
import type { Login } from "./postgres-login.ts";

/** No command that logs in is as long, and none has as many parts. */
const MAX_LENGTH = 8 * 1024;
const MAX_PARTS = 16;
const NEWLINE = 10;

/**
 * Passes on what a client sends to a redis server, with the server's password in place of that of its tunnel in the first
 * command that logs in. What the server is to refuse it gets as it is.
 */
export function withPassword({ password, accepts }: Login): Transform {
  let waiting: Buffer | undefined = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (!waiting) return done(null, chunk);
      waiting = Buffer.concat([waiting, chunk]);
      let hasLoggedIn = false;
      for (let next = readCommand(waiting); next && !hasLoggedIn; next = readCommand(waiting)) {
        const { parts, size } = next;
        const at = passwordAt(parts);
        hasLoggedIn = at !== undefined;
        const isTunnels = at !== undefined && accepts(parts[at]!);
        this.push(isTunnels ? encode(parts.with(at, password)) : waiting.subarray(0, size));
        waiting = waiting.subarray(size);
      }
      if (!hasLoggedIn && waiting.length <= MAX_LENGTH) return done();
      this.push(waiting);
      waiting = undefined;
      done();
    },
    flush(done) {
      done(null, waiting);
    },
  });
}

/** Returns which part of a command is a password, if it logs in: AUTH [user] password, HELLO 3 AUTH user password. */
function passwordAt(parts: string[]): number | undefined {
  const [command, ...rest] = parts.map((part) => part.toUpperCase());
  if (command === "AUTH" && rest.length > 0) return parts.length - 1;
  const at = command === "HELLO" ? rest.indexOf("AUTH") : -1;
  return at !== -1 && at + 3 < parts.length ? at + 3 : undefined;
}

/** Returns the first command of what was sent; undefined while not all of it is there, and for one that is too long. */
function readCommand(sent: Buffer): { parts: string[]; size: number } | undefined {
  let at = 0;
  const readLine = () => {
    const end = sent.indexOf(NEWLINE, at);
    if (end === -1) return undefined;
    const line = sent.toString("latin1", at, end).trimEnd();
    at = end + 1;
    return line;
  };
  const line = readLine();
  if (line === undefined) return undefined;
  // As people type it.
  if (!line.startsWith("*")) return { parts: line.split(" ").filter(Boolean), size: at };
  const count = Number(line.slice(1));
  if (!(count <= MAX_PARTS)) return undefined;
  const parts: string[] = [];
  while (parts.length < count) {
    const size = Number(readLine()?.slice(1));
    if (!(size >= 0 && at + size + 2 <= sent.length)) return undefined;
    parts.push(sent.toString("utf8", at, at + size));
    at += size + 2;
  }
  return { parts, size: at };
}
