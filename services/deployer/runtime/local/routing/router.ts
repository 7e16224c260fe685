import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { isLoopback, namesThisMachine } from "../../../../kit/network/own-origin.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { ServedHost } from "../../port.ts";
import { type Address, forward, forwardUpgrade } from "./proxy.ts";
import { createTraffic, type Traffic } from "./traffic.ts";

export type Router = {
  readonly port: number;
  urlOf(label: string): string;
  /**
   * Sends requests for this host to these addresses from now on; without any, they get 503. A private one answers only
   * processes of this machine, at its name below localhost.
   */
  route(label: string, targets: Address[], access?: "public" | "private"): void;
  /** Answers requests for this host with 404 from now on. */
  forget(label: string): void;
  /** Sends requests for another host name to those addresses too, or redirects them, until it is forgotten. */
  routeHost(host: ServedHost, label: string): void;
  forgetHost(host: string): void;
  /** Returns the requests for this host that were answered since it is routed; undefined for one that is not. */
  traffic(label: string): Traffic | undefined;
  /** Resolves when the address has no request under way, or after `timeoutMs`. */
  drained(target: Address, timeoutMs: number): Promise<void>;
  close(): Promise<void>;
};

const LOCAL_DOMAIN = ".localhost";

/** Where a proxy asks which host names it may get certificates for; clients cannot name this host. */
const SERVED_PATH = "/.berth/served";

/** What proxies tell of whom they ask for. */
const FORWARDED = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

export type RouterOptions = {
  port: number;
  /** The address to listen at: 127.0.0.1 unless given. */
  host?: string;
  /** Apps are at https names below it, besides those below localhost: something in front has the certificates. */
  domain?: string;
  /** Whether a proxy on this machine says which client asks, and by which scheme. */
  behindProxy?: boolean;
  log: Logger;
};

/**
 * Starts the router of all apps on this machine: one port, apps distinguished by host name
 * (`<service>-<environment>-<project>.localhost`). Port 0 chooses a free one. Fails with EADDRINUSE when it is taken.
 */
export async function startRouter(options: RouterOptions): Promise<Router> {
  const { domain, behindProxy = false } = options;
  const suffixes = domain === undefined ? [LOCAL_DOMAIN] : [`.${domain}`, LOCAL_DOMAIN];
  const routes = new Map<string, Address[]>();
  const privates = new Set<string>();
  const hosts = new Map<string, ServedHost & { label: string }>();
  const busy = new Map<string, number>();
  const waiting = new Map<string, Set<() => void>>();
  const traffic = createTraffic();

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

  /** Returns the further host name that a request is for; a name of its own comes before a wildcard. */
  function findHost(name: string) {
    return hosts.get(name) ?? hosts.get(name.replace(/^[^.]+/, "*"));
  }

  function labelOf(name: string): string | undefined {
    const suffix = suffixes.find((one) => name.endsWith(one));
    return suffix === undefined ? findHost(name)?.label : name.slice(0, -suffix.length);
  }

  /** Returns the label that a request is for, if who asks may know of it. */
  function visibleLabel(req: IncomingMessage): string | undefined {
    const label = labelOf(hostOf(req));
    if (label === undefined || !routes.has(label)) return undefined;
    return privates.has(label) && !(isFromHere(req) && hostOf(req).endsWith(LOCAL_DOMAIN))
      ? undefined
      : label;
  }

  /** Answers whether the name in `?domain=` is served here: a proxy asks before it gets a certificate for the name. */
  function answerServed(req: IncomingMessage, res: ServerResponse): void {
    const name = new URLSearchParams(req.url?.split("?")[1]).get("domain")?.toLowerCase() ?? "";
    const label = labelOf(name);
    if (label !== undefined && routes.has(label) && !privates.has(label))
      res.writeHead(200, { "content-length": 0 }).end();
    else refuse(req, res, 404, "not_found", "No service answers at this host name.");
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.url?.split("?")[0] === SERVED_PATH && namesRouter(req)) return answerServed(req, res);
    const { redirectTo } = findHost(hostOf(req)) ?? {};
    if (redirectTo) return redirect(req, res, redirectTo);
    const label = visibleLabel(req);
    if (label === undefined) return refuse(req, res, 404, "not_found", unknownHost(req, suffixes[0]!));
    traffic.count(label, res);
    const tried = new Set<string>();
    for (let target = acquire(label, tried); target; target = acquire(label, tried)) {
      const failure = await forward(req, res, target, behindProxy).finally(() => release(target!));
      if (failure === undefined) return;
      if (failure === "failed")
        return refuse(req, res, 502, "bad_gateway", "The service did not send a valid response.");
      tried.add(keyOf(target));
    }
    refuse(req, res, 503, "unavailable", "This service has no healthy release at the moment.");
  }

  async function upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const label = visibleLabel(req);
    const target = label === undefined ? undefined : acquire(label, new Set());
    if (target) return forwardUpgrade(req, socket, head, target, behindProxy).finally(() => release(target));
    const status = label === undefined ? "404 Not Found" : "503 Service Unavailable";
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
    server.once("error", reject).listen({ port: options.port, host: options.host ?? "127.0.0.1" }, resolve);
  });
  server.on("error", (error) => options.log.error({ err: error }, "the router failed"));
  const { port } = server.address() as { port: number };

  return {
    port,
    urlOf: (label) => (domain ? `https://${label}.${domain}` : `http://${label}${LOCAL_DOMAIN}:${port}`),
    route(label, targets, access = "public") {
      routes.set(label, targets);
      if (access === "private") privates.add(label);
      else privates.delete(label);
      traffic.begin(label);
    },
    forget(label) {
      routes.delete(label);
      privates.delete(label);
      traffic.forget(label);
    },
    traffic: traffic.of,
    routeHost: (host, label) => void hosts.set(host.host, { ...host, label }),
    forgetHost: (host) => void hosts.delete(host),
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

function hostOf(req: IncomingMessage): string {
  return (req.headers.host ?? "").toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
}

/** Whether a request names the router itself as its host: proxies on this machine do that, and pass on other names. */
function namesRouter(req: IncomingMessage): boolean {
  return isLoopback(req.socket.remoteAddress) && namesThisMachine(req);
}

/** Whether a process of this machine asks, and not a proxy of this machine for somebody else. */
function isFromHere({ socket, headers }: IncomingMessage): boolean {
  return isLoopback(socket.remoteAddress) && FORWARDED.every((name) => headers[name] === undefined);
}

/** Redirects to the same path at another host, by the scheme that the client used, whatever is in front. */
function redirect(req: IncomingMessage, res: ServerResponse, host: string): void {
  const port = /:\d+$/.exec(req.headers.host ?? "")?.[0] ?? "";
  const path = req.url?.startsWith("/") ? req.url : "/";
  res.writeHead(308, {
    location: `//${host}${port}${path}`,
    "content-length": 0,
    ...(req.readableEnded ? {} : { connection: "close" }),
  });
  res.end();
}

function unknownHost(req: IncomingMessage, suffix: string): string {
  return `No service answers at ${JSON.stringify(req.headers.host ?? "")}. Services answer at <service>-<environment>-<project>${suffix}.`;
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
