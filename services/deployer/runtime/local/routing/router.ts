import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "../../../shared/logger.ts";
import { type Address, forward, forwardUpgrade } from "./proxy.ts";

export type Router = {
  /** The port on which it listens, at 127.0.0.1 only. */
  readonly port: number;
  urlOf(label: string): string;
  /** Sends requests for this host to these addresses from now on; without any, they get 503. */
  route(label: string, targets: Address[]): void;
  /** Answers requests for this host with 404 from now on. */
  forget(label: string): void;
  /** Resolves when the address has no request under way, or after `timeoutMs`. */
  drained(target: Address, timeoutMs: number): Promise<void>;
  close(): Promise<void>;
};

const DOMAIN = ".localhost";

/**
 * Starts the router of all apps on this machine: one port, apps distinguished by host name
 * (`<service>-<environment>-<project>.localhost`). Port 0 chooses a free one. Fails with EADDRINUSE when it is taken.
 */
export async function startRouter(options: { port: number; log: Logger }): Promise<Router> {
  const routes = new Map<string, Address[]>();
  const busy = new Map<string, number>();
  const waiting = new Map<string, Set<() => void>>();

  /**
   * Returns the least busy address that was not tried yet; equally busy ones take turns. Increments its load
   * synchronously, so that draining sees every request.
   */
  function acquire(label: string, tried: ReadonlySet<string>): Address | undefined {
    const all = routes.get(label) ?? [];
    const free = all.filter((target) => !tried.has(keyOf(target)));
    const load = (target: Address) => busy.get(keyOf(target)) ?? 0;
    const target = free.toSorted((one, other) => load(one) - load(other))[0];
    if (!target) return undefined;
    busy.set(keyOf(target), load(target) + 1);
    routes.set(label, [...all.filter((one) => one !== target), target]); // behind its equals
    return target;
  }

  function release(target: Address): void {
    const key = keyOf(target);
    const left = (busy.get(key) ?? 1) - 1;
    if (left > 0) return void busy.set(key, left);
    busy.delete(key);
    for (const resume of waiting.get(key) ?? []) resume();
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const label = labelOf(req);
    if (label === undefined || !routes.has(label))
      return refuse(req, res, 404, "not_found", unknownHost(req));
    const tried = new Set<string>();
    for (let target = acquire(label, tried); target; target = acquire(label, tried)) {
      const failure = await forward(req, res, target).finally(() => release(target!));
      if (failure === undefined) return;
      if (failure === "failed")
        return refuse(req, res, 502, "bad_gateway", "The service did not send a valid response.");
      tried.add(keyOf(target));
    }
    refuse(req, res, 503, "unavailable", "This service has no healthy release at the moment.");
  }

  async function upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const label = labelOf(req);
    const target = label === undefined ? undefined : acquire(label, new Set());
    if (target) return forwardUpgrade(req, socket, head, target).finally(() => release(target));
    const status = label === undefined || !routes.has(label) ? "404 Not Found" : "503 Service Unavailable";
    socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  }

  const failed = (error: unknown, connection: ServerResponse | Duplex) => {
    options.log.error({ err: error }, "could not forward a request");
    connection.destroy();
  };
  const server = createServer(
    { requestTimeout: 0, keepAliveTimeout: 60_000 },
    (req, res) => void serve(req, res).catch((error) => failed(error, res)),
  );
  const sockets = new Set<Duplex>();
  server.on("connection", (socket: Duplex) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("upgrade", (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => {});
    void upgrade(req, socket, head).catch((error) => failed(error, socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen({ port: options.port, host: "127.0.0.1" }, resolve);
  });
  server.on("error", (error) => options.log.error({ err: error }, "the router failed"));
  const { port } = server.address() as { port: number };

  return {
    port,
    urlOf: (label) => `http://${label}${DOMAIN}:${port}`,
    route: (label, targets) => void routes.set(label, targets),
    forget: (label) => void routes.delete(label),
    async drained(target, timeoutMs) {
      const key = keyOf(target);
      if (!busy.has(key)) return;
      const resumes = waiting.get(key) ?? new Set();
      waiting.set(key, resumes);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        resumes.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
      waiting.delete(key);
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function keyOf(target: Address): string {
  return `${target.host} ${target.port}`;
}

function labelOf(req: IncomingMessage): string | undefined {
  const host = (req.headers.host ?? "").toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
  return host.endsWith(DOMAIN) ? host.slice(0, -DOMAIN.length) : undefined;
}

function unknownHost(req: IncomingMessage): string {
  return `No service answers at ${JSON.stringify(req.headers.host ?? "")}. Services answer at <service>-<environment>-<project>${DOMAIN}.`;
}

function refuse(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  code: string,
  message: string,
): void {
  const json = /\bjson\b/.test(req.headers.accept ?? "");
  const body = json ? JSON.stringify({ error: { code, message } }) : `${message}\n`;
  const type = json ? "application/json" : "text/plain; charset=utf-8";
  // An unread body may still be arriving: the connection cannot be reused.
  res.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    ...(req.readableEnded ? {} : { connection: "close" }),
  });
  res.end(body);
}
