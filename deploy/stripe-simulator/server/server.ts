import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { isOwnRequest, NOT_OWN_REQUEST } from "../../../services/kit/network/own-origin.ts";
import { invalid, StripeError } from "../http/errors.ts";
import type { FaultKind, Faults } from "../http/faults.ts";
import { decodeForm, type Form } from "../http/form.ts";
import { matchRoute, type Route, type SimpleRequest, type SimpleResponse } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";
import { render } from "./expand.ts";
import { findResponse, fingerprint, saveResponse } from "./idempotency.ts";

/** Answers requests outside Stripe's API: pages and the simulator's own endpoints. */
export type OtherHandler = (request: SimpleRequest) => SimpleResponse | Promise<SimpleResponse>;

/** Returns the objections that Stripe would have to a request, even if the simulator accepts it. */
export type Check = (method: string, path: string, form: Form) => string[];

type Served = {
  world: World;
  routes: Route[];
  other: OtherHandler;
  faults: Faults;
  check?: Check | undefined;
  before: () => void;
  changed: () => void;
};

/** Listens on the loopback address; requests get 503 until `serve` is called. */
export async function listen(port: number) {
  let handle = (_request: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(503).end();
  const server = createServer((request, response) => handle(request, response));
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    serve(served: Served): void {
      handle = (request, response) => {
        answer(served, request, response).catch(() => response.destroy());
      };
    },
    stop: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(served: Served, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (!isOwnRequest(request))
    return void response.writeHead(403, { "content-type": "text/plain" }).end(NOT_OWN_REQUEST);
  const { pathname: path, search, searchParams: query } = new URL(request.url ?? "/", "http://localhost");
  const method = request.method ?? "GET";
  const body = await text(request);
  if (!path.startsWith("/v1/")) {
    const { status, headers, body: content } = await served.other({ method, path, query, body });
    response.writeHead(status, headers).end(content);
    return;
  }
  served.before();
  const fault = served.faults.take(method, path);
  if (fault === "refuse") return void response.destroy();
  // Never answered: the client's timeout ends the request.
  if (fault === "timeout") return;
  const input = body === "" ? search.slice(1) : body;
  const reply = served.world.clock.atOnce(() => call(served, { method, path, input, request, fault }));
  if (method !== "GET") served.changed();
  if (fault === "lose_answer") return void response.destroy();
  response
    .writeHead(reply.status, {
      "content-type": "application/json",
      // The time of its clock, as Stripe's responses have that of Stripe.
      date: new Date(served.world.clock.now() * 1_000).toUTCString(),
      "request-id": reply.id,
      ...(reply.replayed && { "idempotent-replayed": "true" }),
    })
    .end(JSON.stringify(reply.body));
}

type Call = {
  method: string;
  path: string;
  input: string;
  request: IncomingMessage;
  fault: FaultKind | undefined;
};
type Reply = { status: number; body: object; id: string; replayed?: boolean };

/** Runs a request, or returns the response to the first one with its Idempotency-Key. */
function call(served: Served, { method, path, input, request, fault }: Call): Reply {
  const { world } = served;
  const id = newId("req", 14);
  const key = method === "POST" ? request.headers["idempotency-key"]?.toString() : undefined;
  const print = fingerprint(method, path, input);
  const now = world.clock.now();
  let started = false;
  const reply = attempt(id, () => {
    authenticate(request.headers.authorization);
    if (fault === "rate_limit") throw rateLimited();
    if (fault === "forbid") throw forbidden();
    const saved = key === undefined ? undefined : findResponse(world.state, key, print, now);
    if (saved) return { status: saved.status, body: saved.body, id: saved.id, replayed: true };
    const prepared = prepare(served, method, path, decodeForm(input));
    started = true;
    if (fault === "error") throw new StripeError(500, "api_error", "An error occurred on our side.");
    return { status: 200, body: render(world, prepared.run(), prepared.expand), id };
  });
  // As at Stripe: a request that failed before it ran may be repeated with the same key.
  if (key !== undefined && started && !reply.replayed)
    saveResponse(world.state, key, { request: print, created: now, ...reply });
  return reply;
}

function attempt(id: string, work: () => Reply): Reply {
  try {
    return work();
  } catch (error) {
    if (error instanceof StripeError) return { status: error.status, body: error.toBody(), id };
    console.error("the simulator of Stripe failed", error);
    const failure = new StripeError(500, "api_error", `The simulator failed: ${(error as Error).message}`);
    return { status: 500, body: failure.toBody(), id };
  }
}

function prepare({ routes, check }: Served, method: string, path: string, form: Form) {
  const complaints = check?.(method, path, form) ?? [];
  if (complaints.length > 0) throw invalid(complaints.join("; "));
  const found = matchRoute(routes, method, path);
  if (!found)
    throw new StripeError(404, "invalid_request_error", `Unrecognized request URL (${method}: ${path}).`, {
      code: "resource_missing",
    });
  return found.route.run(form, ...found.ids);
}

function authenticate(header: string | undefined): void {
  if (header === undefined || !/^Bearer sk_test_\w+$/.test(header))
    throw new StripeError(
      401,
      "invalid_request_error",
      "Invalid API Key provided: use one that starts with sk_test_.",
    );
}

function forbidden(): StripeError {
  return new StripeError(
    403,
    "invalid_request_error",
    "The provided key does not have the required permissions for this endpoint.",
  );
}

function rateLimited(): StripeError {
  return new StripeError(429, "invalid_request_error", "Request rate limit exceeded.", {
    code: "rate_limit",
  });
}
