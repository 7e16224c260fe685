import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { createScramClient } from "../scram.ts";
import { readExactly } from "./read-exactly.ts";

/** Codes that a first message has in place of a version of the protocol. */
const [CANCEL, TLS, GSS] = [80877102, 80877103, 80877104];
/** Kinds of `R` messages. Servers ask for SCRAM: Berth gives them verifiers of passwords. */
const [OK, CLEARTEXT, SCRAM, SCRAM_CONTINUE, SCRAM_FINAL] = [0, 3, 10, 11, 12];
/** As servers have it. */
const MAX_FIRST = 10_000;
const MAX_MESSAGE = 64 * 1024;

/** `password`: what the server asks for. `accepts`: whether it is what the client may log in with. */
export type Login = { password: string; accepts(given: string): boolean };

/**
 * Returns an encrypted connection to a PostgreSQL server where it has TLS, else the given one. Nobody has signed the
 * certificate of an addon: that the server knows the password shows whose it is.
 */
export async function encrypt(server: Socket, signal: AbortSignal): Promise<Duplex> {
  server.write(first(TLS));
  const answer = String(await readExactly(server, 1, signal));
  return answer === "S" ? connectTls({ socket: server, rejectUnauthorized: false }) : server;
}

/**
 * Logs in to a PostgreSQL server in place of a client, which is asked for the password of its tunnel instead. Returns false
 * when the client was refused, and told why. Throws when a side breaks off, or speaks another protocol.
 */
export async function logIn(
  client: Duplex,
  server: Duplex,
  { password, accepts }: Login,
  signal: AbortSignal,
): Promise<boolean> {
  const start = await readStart(client, signal);
  server.write(start.message);
  // A client that cancels a statement knows its secret, and is not answered.
  if (start.code === CANCEL) return true;
  const scram = createScramClient(password);
  for (;;) {
    const { type, body, message } = await readMessage(server, signal);
    const kind = type === "R" ? body.readInt32BE(0) : undefined;
    const said = String(body.subarray(4));
    if (kind === undefined || kind === OK) {
      client.write(message);
      if (kind === OK) return true;
      if (type !== "E") continue;
      client.end();
      return false;
    }
    if (kind === SCRAM) {
      client.write(toMessage("R", int32(CLEARTEXT)));
      const given = (await readMessage(client, signal)).body;
      if (!accepts(String(given.subarray(0, -1)))) {
        client.end(toError("28P01", "The password is not that of this tunnel."));
        return false;
      }
      const initial = Buffer.from(scram.first);
      server.write(toMessage("p", text("SCRAM-SHA-256"), int32(initial.length), initial));
    } else if (kind === SCRAM_CONTINUE) server.write(toMessage("p", Buffer.from(await scram.answer(said))));
    else if (kind !== SCRAM_FINAL || !scram.isServer(said))
      throw new Error("the server does not show that it knows the password");
  }
}

/** Returns the first message that is not about encryption, of which the client needs none: the tunnel is encrypted. */
async function readStart(client: Duplex, signal: AbortSignal) {
  for (;;) {
    const size = (await readExactly(client, 4, signal)).readInt32BE(0);
    if (size < 8 || size > MAX_FIRST) throw new Error("the client does not speak the protocol of PostgreSQL");
    const body = await readExactly(client, size - 4, signal);
    const code = body.readInt32BE(0);
    if (code === TLS || code === GSS) {
      client.write("N");
      continue;
    }
    return { code, message: Buffer.concat([int32(size), body]) };
  }
}

async function readMessage(from: Duplex, signal: AbortSignal) {
  const head = await readExactly(from, 5, signal);
  const size = head.readInt32BE(1) - 4;
  if (size < 0 || size > MAX_MESSAGE) throw new Error("this is no message of PostgreSQL");
  const body = await readExactly(from, size, signal);
  return { type: String.fromCharCode(head[0]!), body, message: Buffer.concat([head, body]) };
}

function toMessage(type: string, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

function toError(code: string, sentence: string): Buffer {
  const fields = { S: "FATAL", V: "FATAL", C: code, M: sentence };
  return toMessage(
    "E",
    ...Object.entries(fields).map(([name, value]) => text(name + value)),
    Buffer.alloc(1),
  );
}

const first = (code: number) => Buffer.concat([int32(8), int32(code)]);
const text = (value: string) => Buffer.from(`${value}\0`);

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
