import { connect } from "node:net";
import type { AddonAddress } from "../port.ts";
import { encode, RedisRefusal } from "../redis-client.ts";

export type Reply = string | number | null | Reply[] | RedisRefusal;

const READ_MS = 5_000;
/** Of all replies together, and of lists in lists. */
const MOST_BYTES = 1024 * 1024;
const MOST_DEPTH = 8;

/**
 * Sends commands to a redis server and returns their replies. Throws RedisRefusal for the first that is refused, and an Error
 * with a code when the replies do not arrive in time.
 */
export async function ask({ host, port }: AddonAddress, commands: string[][]): Promise<Reply[]> {
  const socket = connect({ host, port }).on("error", () => {});
  const end = setTimeout(
    () => socket.destroy(failure("ETIMEDOUT", "a redis server does not answer")),
    READ_MS,
  );
  socket.write(commands.map(encode).join(""));
  let received = Buffer.alloc(0);
  try {
    for await (const part of socket) {
      received = Buffer.concat([received, part]);
      const replies = parseReplies(received);
      const refused = replies.find((reply) => reply instanceof RedisRefusal);
      if (refused) throw refused;
      if (replies.length >= commands.length) return replies;
      if (received.length > MOST_BYTES) throw new Error("the replies of a redis server are too long");
    }
    throw failure("ECONNRESET", "a redis server closed the connection");
  } finally {
    clearTimeout(end);
    socket.destroy();
  }
}

const failure = (code: string, message: string) => Object.assign(new Error(message), { code });

/** Returns the replies (RESP2) that are complete. Throws when it is something else. */
export function parseReplies(bytes: Buffer): Reply[] {
  const replies: Reply[] = [];
  for (let at = 0; ; ) {
    const found = parseReply(bytes, at, 0);
    if (!found) return replies;
    replies.push(found.reply);
    at = found.next;
  }
}

type Found = { reply: Reply; next: number };

/** Returns the reply that begins at `at`, and where the next one begins; undefined where it is not complete. */
function parseReply(bytes: Buffer, at: number, depth: number): Found | undefined {
  const end = bytes.indexOf("\r\n", at);
  if (end < 0) return undefined;
  const line = bytes.toString("utf8", at + 1, end);
  const next = end + 2;
  const kind = String.fromCharCode(bytes[at]!);
  if (kind === "+") return { reply: line, next };
  if (kind === "-") return { reply: new RedisRefusal(line), next };
  const number = Number(line);
  if (kind === ":") return { reply: number, next };
  if (!"$*".includes(kind) || !Number.isInteger(number) || depth > MOST_DEPTH)
    throw new Error("a redis server sent no reply that can be read");
  if (number < 0) return { reply: null, next };
  return kind === "$" ? parseBulk(bytes, next, number) : parseList(bytes, next, number, depth);
}

function parseBulk(bytes: Buffer, at: number, length: number): Found | undefined {
  const next = at + length + 2;
  return next > bytes.length ? undefined : { reply: bytes.toString("utf8", at, at + length), next };
}

function parseList(bytes: Buffer, at: number, length: number, depth: number): Found | undefined {
  const reply: Reply[] = [];
  let next = at;
  while (reply.length < length) {
    const found = parseReply(bytes, next, depth + 1);
    if (!found) return undefined;
    reply.push(found.reply);
    next = found.next;
  }
  return { reply, next };
}
