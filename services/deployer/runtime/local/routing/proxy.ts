import { Agent, type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export type Address = {
  host: string;
  port: number;
};

/**
 * Why there is no answer of the app. `refused`: nothing was sent, another replica may be asked. `failed`: it
 * ended before it answered, or what it sent is no answer.
 */
type Unreached = "refused" | "failed";

const AGENT = new Agent({ keepAlive: true, maxFreeSockets: 64, timeout: 4000 });

/**
 * Passes one request to the app and its answer back, streaming both ways. Resolves when the exchange is
 * over; with the reason when the app gave no answer at all (then nothing has been written to `res`).
 */
export function forward(
  req: IncomingMessage,
  res: ServerResponse,
  to: Address,
): Promise<Unreached | undefined> {
  const bodyless =
    req.headers["content-length"] === undefined && req.headers["transfer-encoding"] === undefined;
  return attempt(req, res, to, bodyless && ["GET", "HEAD", "OPTIONS"].includes(req.method ?? ""));
}

function attempt(
  req: IncomingMessage,
  res: ServerResponse,
  to: Address,
  repeatable: boolean,
): Promise<Unreached | undefined> {
  return new Promise((resolve) => {
    // A kept connection may be closed by the app just as it is used again: only what can be sent a second
    // time takes one.
    const headers = forwardedHeaders(req, repeatable ? "keep-alive" : "close");
    const agent = repeatable ? AGENT : false;
    const upstream = request({ ...to, method: req.method, path: req.url, headers, agent, setHost: false });
    let connected = false;
    let answer: IncomingMessage | undefined;
    upstream.on("socket", (socket) => {
      if (upstream.reusedSocket) connected = true;
      else socket.once("connect", () => (connected = true));
    });
    upstream.on("error", () => {
      // What goes wrong after a whole answer is of no matter.
      if (res.headersSent) return void (answer?.complete || res.destroy());
      if (res.destroyed) resolve(undefined);
      else if (repeatable && upstream.reusedSocket && !answer) resolve(attempt(req, res, to, repeatable));
      else resolve(connected ? "failed" : "refused");
    });
    upstream.on("response", (came) => {
      answer = came;
      if (!isProper(answer)) return void upstream.destroy();
      res.writeHead(answer.statusCode!, answer.statusMessage, endToEnd(answer.rawHeaders));
      res.flushHeaders();
      answer.pipe(res);
      answer.on("error", () => res.destroy());
    });
    // Without an error as well: after a 101 that nobody asked for.
    upstream.on("close", () => res.headersSent || resolve("failed"));
    res.on("close", () => {
      upstream.destroy();
      resolve(undefined);
    });
    if (repeatable) upstream.end();
    else sendBody(req, upstream, () => connected);
  });
}

/** The body is taken from the client only once the app has accepted the connection. */
function sendBody(req: IncomingMessage, upstream: ClientRequest, connected: () => boolean): void {
  const start = () => req.pipe(upstream);
  upstream.on("socket", (socket) => (connected() ? start() : socket.once("connect", start)));
  upstream.on("close", () => req.unpipe(upstream));
}

/** Passes an upgrade (websockets) on and joins the two connections until either side is done. */
export function forwardUpgrade(
  req: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  to: Address,
): Promise<void> {
  return new Promise((resolve) => {
    const headers = [...forwardedHeaders(req), "connection", "upgrade", "upgrade", req.headers.upgrade ?? ""];
    const upstream = request({
      ...to,
      method: req.method,
      path: req.url,
      headers,
      agent: false,
      setHost: false,
    });
    const over = () => {
      finish(socket);
      upstream.destroy();
      resolve();
    };
    socket.on("error", over).on("end", over).on("close", over);
    let answered = false;
    upstream.on("error", () => {});
    upstream.on("close", () => {
      if (answered) return;
      if (socket.writable)
        socket.write("HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
      over();
    });
    upstream.on("upgrade", (answer, peer, first) => {
      if (!isPrintable(answer)) return void peer.destroy();
      answered = true;
      const both = () => {
        finish(peer);
        finish(socket);
        resolve();
      };
      socket.off("error", over).off("end", over).off("close", over);
      for (const side of [socket, peer]) side.on("error", both).on("end", both).on("close", both);
      socket.write(headText(answer, answer.rawHeaders));
      if (first.length > 0) socket.write(first);
      if (head.length > 0) peer.write(head);
      socket.pipe(peer).pipe(socket);
    });
    upstream.on("response", (answer) => {
      if (!isProper(answer)) return void upstream.destroy();
      answered = true;
      socket.write(headText(answer, [...endToEnd(answer.rawHeaders), "connection", "close"]));
      answer.on("error", over).on("end", over).pipe(socket, { end: false });
    });
    upstream.end();
  });
}

/** Whether it is a final answer that can be passed on (RFC 9110 section 15): an app may write anything. */
function isProper(answer: IncomingMessage): boolean {
  const { statusCode = 0 } = answer;
  return statusCode >= 200 && statusCode <= 599 && isPrintable(answer);
}

/** Node reads more in the line of the status than it writes. */
function isPrintable({ statusMessage = "", rawHeaders }: IncomingMessage): boolean {
  return [statusMessage, ...rawHeaders].every((text) => /^[\t\x20-\x7e\x80-\xff]*$/.test(text));
}

/** Closes a connection after what has been written to it has left. */
function finish(side: Duplex): void {
  side.end(() => side.destroy());
}

function headText(answer: IncomingMessage, headers: string[]): string {
  let text = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n`;
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

/** Names and values in turn, without those that concern only this connection (RFC 9110 section 7.6.1). */
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

/** The client's headers, its Host included; what it says of proxies before us is replaced by what is true. */
function forwardedHeaders(req: IncomingMessage, connection?: "keep-alive" | "close"): string[] {
  const headers: string[] = [];
  const kept = endToEnd(req.rawHeaders);
  for (let at = 0; at < kept.length; at += 2) {
    if (!FORWARDED.has(kept[at]!.toLowerCase())) headers.push(kept[at]!, kept[at + 1]!);
  }
  headers.push("x-forwarded-for", req.socket.remoteAddress ?? "127.0.0.1");
  headers.push("x-forwarded-host", req.headers.host ?? "", "x-forwarded-proto", "http");
  headers.push("x-forwarded-port", String(req.socket.localPort));
  if (req.headers["transfer-encoding"] !== undefined) headers.push("transfer-encoding", "chunked");
  if (connection) headers.push("connection", connection);
  return headers;
}
