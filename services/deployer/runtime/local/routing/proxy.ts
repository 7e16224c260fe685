import { Agent, type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { isLoopback } from "../../../../kit/network/own-origin.ts";

export type Address = {
  host: string;
  port: number;
};

/**
 * Why the app sent no response. `refused`: it did not accept the connection, so another replica may be tried. `failed`:
 * it closed the connection before it responded, or its response is invalid.
 */
type Failure = "refused" | "failed";

const AGENT = new Agent({ keepAlive: true, maxFreeSockets: 64, timeout: 4000 });

/**
 * Forwards one request to the app and its response back, streaming both ways. Resolves when the exchange is over; with
 * the reason when the app sent no response (then nothing has been written to `res`).
 */
export function forward(
  req: IncomingMessage,
  res: ServerResponse,
  to: Address,
  behindProxy: boolean,
): Promise<Failure | undefined> {
  const bodyless =
    req.headers["content-length"] === undefined && req.headers["transfer-encoding"] === undefined;
  const repeatable = bodyless && ["GET", "HEAD", "OPTIONS"].includes(req.method ?? "");
  return attempt(req, res, to, { repeatable, behindProxy });
}

function attempt(
  req: IncomingMessage,
  res: ServerResponse,
  to: Address,
  how: { repeatable: boolean; behindProxy: boolean },
): Promise<Failure | undefined> {
  const { repeatable, behindProxy } = how;
  return new Promise((resolve) => {
    // The app may close a kept connection just as it is reused: only requests that can be repeated use one.
    const headers = forwardedHeaders(req, behindProxy, repeatable ? "keep-alive" : "close");
    const agent = repeatable ? AGENT : false;
    const upstream = request({ ...to, method: req.method, path: req.url, headers, agent, setHost: false });
    let connected = false;
    let response: IncomingMessage | undefined;
    upstream.on("socket", (socket) => {
      if (upstream.reusedSocket) connected = true;
      else socket.once("connect", () => (connected = true));
    });
    upstream.on("error", () => {
      // An error after the whole response does not matter.
      if (res.headersSent) return void (response?.complete || res.destroy());
      if (res.destroyed) resolve(undefined);
      else if (repeatable && upstream.reusedSocket && !response) resolve(attempt(req, res, to, how));
      else resolve(connected ? "failed" : "refused");
    });
    upstream.on("response", (received) => {
      response = received;
      if (!isValid(response)) return void upstream.destroy();
      res.writeHead(response.statusCode!, response.statusMessage, endToEnd(response.rawHeaders));
      res.flushHeaders();
      response.pipe(res);
      response.on("error", () => res.destroy());
    });
    // Also emitted without an error, after a 101 that nobody asked for.
    upstream.on("close", () => res.headersSent || resolve("failed"));
    res.on("close", () => {
      upstream.destroy();
      resolve(undefined);
    });
    if (repeatable) upstream.end();
    else sendBody(req, upstream, () => connected);
  });
}

/** Reads the body from the client only once the app has accepted the connection. */
function sendBody(req: IncomingMessage, upstream: ClientRequest, connected: () => boolean): void {
  const start = () => req.pipe(upstream);
  upstream.on("socket", (socket) => (connected() ? start() : socket.once("connect", start)));
  upstream.on("close", () => req.unpipe(upstream));
}

/** Forwards an upgrade (websockets) and joins the two connections until either side closes. */
export function forwardUpgrade(
  req: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  to: Address,
  behindProxy: boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const headers = [
      ...forwardedHeaders(req, behindProxy),
      "connection",
      "upgrade",
      "upgrade",
      req.headers.upgrade ?? "",
    ];
    const upstream = request({
      ...to,
      method: req.method,
      path: req.url,
      headers,
      agent: false,
      setHost: false,
    });
    const end = () => {
      endAfterWrites(socket);
      upstream.destroy();
      resolve();
    };
    socket.on("error", end).on("end", end).on("close", end);
    let responded = false;
    upstream.on("error", () => {});
    upstream.on("close", () => {
      if (responded) return;
      if (socket.writable)
        socket.write("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
      end();
    });
    upstream.on("upgrade", (response, peer, first) => {
      if (!isPrintable(response)) return void peer.destroy();
      responded = true;
      const endBoth = () => {
        endAfterWrites(peer);
        endAfterWrites(socket);
        resolve();
      };
      socket.off("error", end).off("end", end).off("close", end);
      for (const side of [socket, peer]) side.on("error", endBoth).on("end", endBoth).on("close", endBoth);
      socket.write(headText(response, response.rawHeaders));
      if (first.length > 0) socket.write(first);
      if (head.length > 0) peer.write(head);
      socket.pipe(peer).pipe(socket);
    });
    upstream.on("response", (response) => {
      if (!isValid(response)) return void upstream.destroy();
      responded = true;
      socket.write(headText(response, [...endToEnd(response.rawHeaders), "connection", "close"]));
      response.on("error", end).on("end", end).pipe(socket, { end: false });
    });
    upstream.end();
  });
}

/** Returns whether a response is final and can be forwarded (RFC 9110 section 15): an app may write anything. */
function isValid(response: IncomingMessage): boolean {
  const { statusCode = 0 } = response;
  return statusCode >= 200 && statusCode <= 599 && isPrintable(response);
}

/** Node accepts characters in a status line that it refuses to write. */
function isPrintable({ statusMessage = "", rawHeaders }: IncomingMessage): boolean {
  return [statusMessage, ...rawHeaders].every((text) => /^[\t\x20-\x7e\x80-\xff]*$/.test(text));
}

/** Closes a connection once everything written to it has been sent. */
function endAfterWrites(side: Duplex): void {
  side.end(() => side.destroy());
}

function headText(response: IncomingMessage, headers: string[]): string {
  let text = `HTTP/1.1 ${response.statusCode} ${response.statusMessage}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const FORWARDED = new Set([
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-forwarded-port",
]);

/** Returns raw headers without those that concern only this connection (RFC 9110 section 7.6.1). */
function endToEnd(raw: string[]): string[] {
  const named = new Set<string>();
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at]!.toLowerCase() === "connection") {
      for (const name of raw[at + 1]!.split(",")) named.add(name.trim().toLowerCase());
    }
  }
  const kept: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!.toLowerCase();
    if (!HOP_BY_HOP.has(name) && !named.has(name)) kept.push(raw[at]!, raw[at + 1]!);
  }
  return kept;
}

/**
 * Returns the client's headers, its Host included; what it claims about proxies is replaced by the truth. A proxy on
 * this machine knows the client's address and scheme: it is believed about these two, which it sets itself. Other
 * headers of their kind it may just pass on.
 */
function forwardedHeaders(
  req: IncomingMessage,
  behindProxy: boolean,
  connection?: "keep-alive" | "close",
): string[] {
  const headers: string[] = [];
  const kept = endToEnd(req.rawHeaders);
  for (let at = 0; at < kept.length; at += 2) {
    if (!FORWARDED.has(kept[at]!.toLowerCase())) headers.push(kept[at]!, kept[at + 1]!);
  }
  const { "x-forwarded-for": client, "x-forwarded-proto": scheme } =
    behindProxy && isLoopback(req.socket.remoteAddress) ? req.headers : {};
  const secure = scheme === "https";
  const { host = "" } = req.headers;
  const port = scheme ? (/:(\d+)$/.exec(host)?.[1] ?? (secure ? "443" : "80")) : String(req.socket.localPort);
  headers.push("x-forwarded-for", String(client ?? req.socket.remoteAddress ?? "127.0.0.1"));
  headers.push("x-forwarded-host", host, "x-forwarded-proto", secure ? "https" : "http");
  headers.push("x-forwarded-port", port);
  if (req.headers["transfer-encoding"] !== undefined) headers.push("transfer-encoding", "chunked");
  if (connection) headers.push("connection", connection);
  return headers;
}
