import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Logger } from "../../../kit/log.ts";
import { closeConnectionsOnShutdown, closeGracefully } from "../../../kit/process/graceful-close.ts";
import { listen } from "../../../kit/process/server.ts";
import { answers, forward } from "./forward.ts";
import { createPullLogins } from "./logins.ts";
import { type PullRequest, parsePullRequest } from "./pull-request.ts";
import { JSON_TYPE, type Refusal, refuse } from "./refuse.ts";

export type DoorOptions = {
  host: string;
  port: number;
  /** The port on this machine of the registry behind it, which only reads. */
  registryPort: number;
  keys: Buffer[];
  /** Of `nodes`, the login that all namespaces held before accounts had their own; without it there is none. */
  nodesPassword?: string | undefined;
  log: Logger;
  /** How long a connection may stand still, and how long an answer or the end of all may take, in milliseconds. */
  limits?: Partial<typeof LIMITS>;
};

const LIMITS = { idleMs: 60_000, answerMs: 2 * 3_600_000, drainMs: 60_000 };
const HEADERS = { maxHeaderSize: 8 * 1024, headersTimeout: 10_000, requestTimeout: 10_000 };
const CONNECTIONS = { keepAliveTimeout: 30_000, connectionsCheckingInterval: 5_000 };
const MAX_CONNECTIONS = 2_000;

const NODES = "nodes";
const ACCOUNT = /^acc_/;

/**
 * The door through which nodes pull from the bundled registry (docs/images.md#ownership). An account's login opens the
 * account's own path, and the one that all accounts had before; the login of `nodes` that one alone. Everything but
 * pulls stays outside.
 */
export async function openDoor(options: DoorOptions) {
  const { host, port, registryPort, log } = options;
  const limits = { ...LIMITS, ...options.limits };
  const identify = createIdentify(options);

  function answer(request: IncomingMessage, response: ServerResponse): void {
    closeConnectionsOnShutdown(response);
    const asked = admit(request, identify);
    if (request.url === "/healthz") answerHealth(response, true);
    else if (request.url === "/readyz")
      void answers(registryPort).then((ready) => answerHealth(response, ready));
    else if ("status" in asked) refuse(response, asked);
    else if (asked.what === "version") response.writeHead(200, VERSION).end("{}");
    else forward(request, response, { port: registryPort, path: asked.path, maxMs: limits.answerMs, log });
  }

  const server = createServer({ ...HEADERS, ...CONNECTIONS }, answer);
  server.maxConnections = MAX_CONNECTIONS;
  server.setTimeout(limits.idleMs);
  return {
    port: await listen(server, port, host),
    stop: () => closeGracefully(server, limits.drainMs),
  };
}

const VERSION = { ...JSON_TYPE, "docker-distribution-api-version": "registry/2.0" };

const WITH_BODY: Refusal = {
  ...{ status: 400, code: "UNSUPPORTED", message: "A pull has no body." },
  headers: { connection: "close" },
};
const NO_PULL: Refusal = {
  ...{ status: 405, code: "UNSUPPORTED", message: "Images can only be pulled here." },
  headers: { allow: "GET, HEAD" },
};
const UNKNOWN_USER: Refusal = {
  ...{ status: 401, code: "UNAUTHORIZED", message: "This login pulls nothing here." },
  headers: { "www-authenticate": 'Basic realm="berth"' },
};
const UNKNOWN_NAME: Refusal = {
  status: 404,
  code: "NAME_UNKNOWN",
  message: "There is nothing to pull here.",
};
const OF_OTHER: Refusal = {
  status: 403,
  code: "DENIED",
  message: "This login does not pull images of that account.",
};

/** Returns what a request may have, or why it may not. */
function admit({ method, url = "", headers }: IncomingMessage, identify: Identify): PullRequest | Refusal {
  if (headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0")
    return WITH_BODY;
  if (method !== "GET" && method !== "HEAD") return NO_PULL;
  const user = identify(headers.authorization);
  if (user === undefined) return UNKNOWN_USER;
  const asked = parsePullRequest(url);
  if (!asked) return UNKNOWN_NAME;
  const isOfOther = asked.what === "image" && asked.accountId !== undefined && asked.accountId !== user;
  return isOfOther ? OF_OTHER : asked;
}

function answerHealth(response: ServerResponse, healthy: boolean): void {
  response.writeHead(healthy ? 200 : 503).end();
}

type Identify = (authorization?: string) => string | undefined;

/** Returns a function from a request's `Authorization` to the user whose password it has. */
function createIdentify({ keys, nodesPassword }: DoorOptions): Identify {
  const logins = createPullLogins(keys);
  return (authorization = "") => {
    const [, encoded] = /^basic ([A-Za-z0-9+/]+={0,2})$/i.exec(authorization) ?? [];
    const [, user, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded ?? "", "base64").toString()) ?? [];
    if (user === undefined || password === undefined) return undefined;
    const isKnown = ACCOUNT.test(user)
      ? logins.isPassword(password, user)
      : user === NODES && nodesPassword !== undefined && isEqual(password, nodesPassword);
    return isKnown ? user : undefined;
  };
}

function isEqual(given: string, expected: string): boolean {
  const [one, other] = [given, expected].map((text) => createHash("sha256").update(text).digest());
  return timingSafeEqual(one!, other!);
}
