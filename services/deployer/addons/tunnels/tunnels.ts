import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { type Duplex, finished } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createWebSocketStream, type WebSocket, WebSocketServer } from "ws";
import type { Pool } from "../../../kit/postgres/db.ts";
import type { Upgrades } from "../../../kit/process/server.ts";
import type { Secrets } from "../../secrets.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AddonType } from "../../terms/services.ts";
import type { AddonServers } from "../port.ts";
import { findAddon, toAddon } from "../sql.ts";
import { encrypt, type Login, logIn } from "./postgres-login.ts";
import { withPassword } from "./redis-login.ts";
import { openTicket, TUNNELS } from "./ticket.ts";

/** In this process, and of an account. */
const MOST = 512;
const MOST_OF_ONE = 32;
const DIAL_MS = 5_000;
/** As PostgreSQL has it. */
const LOGIN_MS = 60_000;
/** A client of which nothing is heard for twice as long is gone. */
const PING_MS = 30_000;
const LONGEST_MS = 8 * 3_600_000;
/** A message is held in memory until all of it is there: those of all connections have to have room. */
const MAX_MESSAGE = 128 * 1024;
/** Codes of RFC 6455 that say why a tunnel was closed. */
const [GOING_AWAY, RESTARTS] = [1001, 1012];
/** How long clients have to close what ends as this process stops. */
const STOP_MS = 1_000;

type Deps = {
  pool: Pool;
  secrets: Pick<Secrets, "open">;
  servers: Pick<AddonServers, "address">;
  log: Logger;
};

/** Connects WebSockets to the servers of addons (docs/addons.md#tunnels): whoever has a ticket, to its addon. */
export function createTunnels({ pool, secrets, servers, log }: Deps): Upgrades {
  const opening = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_MESSAGE });
  /** Those that are being opened, too, with the account of each. */
  const open = new Map<Duplex, string>();
  const openOf = (accountId: string) => [...open.values()].filter((one) => one === accountId).length;

  async function answer(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const refuse = (status: number, code: string, message: string) =>
      refuseUpgrade(req, socket, status, code, message);
    const ticket = openTicket(secrets, req.url ?? "");
    if (!ticket) return refuse(403, "forbidden", "This is not the path of a tunnel.");
    const { serviceId, expiresMs, password: temporary } = ticket;
    if (expiresMs <= Date.now())
      return refuse(403, "forbidden", "This tunnel has expired; request a new one.");
    const row = await findAddon(pool, serviceId);
    if (!row) return refuse(404, "not_found", "There is no such service any more.");
    if (open.size >= MOST || openOf(row.accountId) >= MOST_OF_ONE)
      return refuse(503, "unavailable", "Too many connections are open; close some, or try again later.");
    if (socket.destroyed) return;
    const password = secrets.open(row.secret, serviceId);
    const accepts = (given: string) => isSame(given, temporary) || isSame(given, password);
    open.set(socket, row.accountId);
    socket.once("close", () => open.delete(socket));
    const server = await dial(servers.address(toAddon(row, false))).catch(() => undefined);
    if (!server)
      return refuse(503, "unavailable", "The server of the addon does not answer; try again later.");
    opening.handleUpgrade(req, socket, head, (client) => {
      void join(client, server, row.type, { password, accepts });
    });
    // What is no WebSocket was refused, and a client may have left meanwhile.
    if (!socket.writable) server.destroy();
  }

  return {
    takes: ({ url }) => url?.startsWith(TUNNELS) === true,
    take(req, socket, head) {
      socket.on("error", () => socket.destroy());
      answer(req, socket, head).catch((error) => {
        log.warn({ err: error }, "a tunnel could not be opened");
        refuseUpgrade(req, socket, 503, "unavailable", "The tunnel could not be opened; try again later.");
      });
    },
    stop() {
      for (const client of opening.clients) client.close(RESTARTS, "Berth restarts; connect again.");
      setTimeout(() => {
        for (const client of opening.clients) client.terminate();
      }, STOP_MS).unref();
    },
  };
}

/** Returns a connection to a server. Throws when it does not accept one in time. */
async function dial({ host, port }: { host: string; port: number }): Promise<Socket> {
  const socket = connect({ host, port, keepAlive: true, noDelay: true });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(DIAL_MS) });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Logs the client in, and passes on what each side sends until one has ended. */
async function join(client: WebSocket, server: Socket, type: AddonType, login: Login): Promise<void> {
  let isHeard = true;
  client.on("pong", () => {
    isHeard = true;
  });
  const pinging = setInterval(() => {
    if (!isHeard) return client.terminate();
    isHeard = false;
    client.ping();
  }, PING_MS);
  const longest = setTimeout(() => client.close(GOING_AWAY, "A tunnel lasts for 8 hours."), LONGEST_MS);
  const stream = createWebSocketStream(client);
  // One that breaks off ends the other.
  const ended =
    type === "postgres"
      ? joinPostgres(stream, server, login)
      : pipeline(stream, withPassword(login), server, stream);
  await ended.catch(() => {});
  clearInterval(pinging);
  clearTimeout(longest);
  stream.destroy();
  server.destroy();
}

async function joinPostgres(client: Duplex, server: Socket, login: Login): Promise<void> {
  const over = new AbortController();
  const watch = (side: Duplex) => finished(side, { writable: false }, () => over.abort());
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(LOGIN_MS)]);
  watch(client);
  watch(server);
  const encrypted = await encrypt(server, signal);
  watch(encrypted);
  if (await logIn(client, encrypted, login, signal)) await pipeline(client, encrypted, client);
  else if (!client.destroyed) await once(client, "close");
}

function isSame(given: string, expected: string | undefined): boolean {
  if (expected === undefined) return false;
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(given), hash(expected));
}

/** Answers a request that asked for a WebSocket as any other, and closes its connection. */
function refuseUpgrade(
  req: IncomingMessage,
  socket: Duplex,
  status: number,
  code: string,
  message: string,
): void {
  const res = new ServerResponse(req);
  res.assignSocket(socket as Socket);
  res.on("finish", () => (socket as Socket).destroySoon());
  res.writeHead(status, { "content-type": "application/json", connection: "close" });
  res.end(JSON.stringify({ error: { code, message, details: [] } }));
}
