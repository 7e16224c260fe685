import { type IncomingMessage, request, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FastifyInstance } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { type Problem, problem, unreachable } from "../http/problem.ts";
import { requestId } from "../http/request-id.ts";
import { errorResponse, writeResponse } from "../http/response.ts";
import { sendResponse } from "../http/send-response.ts";
import { CLIENT_LEFT, observer } from "../metrics/request-metrics.ts";
import { toProblem } from "../uploads/upload-proxy.ts";
import { readBounded } from "../upstream/read-bounded.ts";

const PATH = "/tunnels/";
const MAX_REFUSAL = 64 * 1024;
/** How long the deployer may take to reach an addon. */
const OPEN_MS = 15_000;
/** More than the deployer accepts, so that it refuses the rest itself, with the reason. */
const MOST = 600;

const TOO_MANY = problem(503, "unavailable", "Too many connections are open; try again later.", {
  retryAfter: 5,
});
const NO_WEBSOCKET = problem(400, "malformed_request", "This path takes a WebSocket.");

/** Whether a request asks for the other protocol at a path of tunnels. What else asks for one is answered as usual. */
export const isTunnel = ({ url }: IncomingMessage) => url?.startsWith(PATH) === true;

/**
 * Registers the WebSockets at /tunnels/*, whose bytes go to the deployer and back: that checks the path, which is a secret.
 * They are closed when the gateway stops.
 */
export function registerTunnels(
  app: FastifyInstance,
  deployerUrl: string,
  options: { tracing: boolean; log: Logger },
) {
  const open = new Set<Duplex>();
  const measure = observer("GET", `${PATH}*`, options);

  app.get(`${PATH}*`, { exposeHeadRoute: false }, (asked, reply) => {
    sendResponse(asked, reply, errorResponse(NO_WEBSOCKET, asked.id));
  });

  app.server.on("upgrade", (asked: IncomingMessage, client: Socket, head: Buffer) => {
    const id = requestId(asked.headers["x-request-id"]);
    const observed = measure.begin(asked.headers.traceparent as string | undefined);
    client.on("error", () => client.destroy());
    // It may be silent for long: the deployer notices when a client is gone.
    client.setTimeout(0);
    client.setNoDelay(true);
    open.add(client);
    client.once("close", () => open.delete(client));
    let isOver = false;
    /** Measures the outcome; returns false where there is one. */
    const end = (outcome: Parameters<typeof measure.end>[1]) => {
      if (isOver) return false;
      isOver = true;
      measure.end(observed, outcome, id);
      return true;
    };
    const refuse = (refusal: Problem) => {
      const response = errorResponse(refusal, id);
      if (!end(response)) return;
      const answer = new ServerResponse(asked);
      answer.assignSocket(client);
      answer.on("finish", () => client.destroySoon());
      writeResponse(answer, id, { ...response, close: true }, undefined);
    };
    if (open.size > MOST) return refuse(TOO_MANY);
    const headers = { ...handshakeOf(asked), "x-request-id": id };
    const upstream = request(deployerUrl, { path: asked.url, agent: false, headers });
    const late = setTimeout(() => upstream.destroy(new Error("it does not answer")), OPEN_MS);
    client.once("close", () => {
      clearTimeout(late);
      end(CLIENT_LEFT);
      upstream.destroy();
    });
    upstream.on("upgrade", (accepted, server, first) => {
      clearTimeout(late);
      if (!end({ status: 101 })) return void server.destroy();
      server.setNoDelay(true);
      client.write(toHead(accepted, id));
      client.write(first);
      server.write(head);
      // One that breaks off ends the other.
      void pipeline(client, server, client).catch(() => {});
    });
    upstream.on("response", (refusal) => {
      readBounded(refusal, MAX_REFUSAL).then(
        (text) => refuse(toProblem(refusal.statusCode!, text)),
        (error) => refuse(unreachable("deployer", error)),
      );
    });
    upstream.on("error", (error) => refuse(unreachable("deployer", error)));
    upstream.end();
  });
  app.addHook("preClose", async () => {
    for (const client of open) client.destroy();
  });
}

const HANDSHAKE = ["sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "traceparent"];

function handshakeOf({ headers }: IncomingMessage): Record<string, string> {
  const given = HANDSHAKE.flatMap((name) => {
    const value = headers[name];
    return typeof value === "string" ? [[name, value]] : [];
  });
  return { connection: "Upgrade", upgrade: headers.upgrade!, ...Object.fromEntries(given) };
}

function toHead({ rawHeaders }: IncomingMessage, id: string): string {
  const lines = ["HTTP/1.1 101 Switching Protocols", `x-request-id: ${id}`];
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}
