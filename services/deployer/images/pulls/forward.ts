import { type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http";
import { pipeline } from "node:stream";
import type { Logger } from "../../../kit/log.ts";
import { fetch } from "../../../kit/network/fetch.ts";
import { type Refusal, refuse } from "./refuse.ts";

type Forwarding = {
  /** Of the registry on this machine. */
  port: number;
  path: string;
  /** How long the answer may take, in milliseconds. */
  maxMs: number;
  log: Logger;
};

/** How long the registry may take until its answer begins. */
const BEGIN_MS = 30_000;
const READY_MS = 2_000;
const ASKED = ["accept", "range", "if-range", "if-none-match", "if-modified-since"];
const ANSWERED = [
  ...["content-type", "content-length", "content-range", "accept-ranges", "etag", "last-modified"],
  ...["cache-control", "docker-content-digest", "docker-distribution-api-version", "x-content-type-options"],
];

const AWAY: Refusal = {
  status: 503,
  code: "UNAVAILABLE",
  message: "The registry does not answer; try again.",
};

/** Answers with what the registry answers to this path, as fast as the client reads, and breaks off if the registry does. */
export function forward(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  { port, path, maxMs, log }: Forwarding,
): void {
  const asking = request({
    host: "127.0.0.1",
    port,
    path,
    method,
    headers: pick(headers, ASKED),
    agent: false,
  });
  const beginning = setTimeout(() => asking.destroy(new Error("it did not answer in time")), BEGIN_MS);
  const ending = setTimeout(() => response.destroy(), maxMs);
  const failed = (err: Error) => {
    if (response.destroyed) return;
    log.warn({ err, path }, "the registry broke off");
    if (response.headersSent) response.destroy();
    else refuse(response, AWAY);
  };
  asking.on("error", failed);
  asking.on("response", (answer) => {
    clearTimeout(beginning);
    response.writeHead(answer.statusCode!, pick(answer.headers, ANSWERED));
    pipeline(answer, response, (err) => err && failed(err));
  });
  response.on("close", () => {
    clearTimeout(beginning);
    clearTimeout(ending);
    asking.destroy();
  });
  asking.end();
}

/** Returns whether a registry at a port of this machine answers. */
export function answers(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(READY_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

function pick(headers: IncomingHttpHeaders, names: string[]) {
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, headers[name]!]] : [])));
}
