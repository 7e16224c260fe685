import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import {
  create,
  type DescMethod,
  type DescMethodUnary,
  fromJsonString,
  getOption,
  type JsonReadOptions,
  type JsonWriteOptions,
  type Message,
  type MessageInitShape,
  toJsonString,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type HandlerContext,
  type Interceptor,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { mergeNonProtocolHeaders } from "@connectrpc/connect/protocol";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { LRUCache } from "lru-cache";
import { Role } from "../../../../proto/gen/berth/options/v1/options_pb.ts";
import { http } from "../../../../proto/gen/google/api/annotations_pb.ts";
import { createLanes, NoLane } from "../../concurrency/lanes.ts";
import { maxBodyOf, requiredRole, rulesOf } from "../interceptor.ts";
import { invalid, sentence, unavailable } from "../refusals.ts";
import { keepChecked } from "../violations.ts";
import { findExcess } from "./json-bounds.ts";
import { createStreamJson } from "./stream-json.ts";
import { UnaryContext, unaryContextOf } from "./unary-context.ts";

type Options = {
  interceptors: Interceptor[];
  jsonOptions: Partial<JsonReadOptions & JsonWriteOptions>;
  shutdownSignal: AbortSignal;
};

type Call = (request: UnaryRequest) => Promise<Pick<UnaryResponse, "message" | "header" | "trailer">>;
type Impl = (message: Message, context: HandlerContext) => unknown;

/** What is known of a method; of a read also its last messages by their JSON, as clients ask the same again and again. */
type Known = {
  method: DescMethodUnary;
  call: Call;
  asked: LRUCache<string, Message> | undefined;
  /** Larger bodies are refused. */
  maxBytes: number;
};

const JSON_TYPE = "application/json";
/** How many messages are kept of a read, and of how many bytes at most. */
const KEPT = 500;
const KEPT_BYTES = 512;
/** Larger requests queue among themselves, as bytes: together they would take the memory and the time of all others. */
const LARGE_BYTES = 256 * 1024;
const LARGE_AT_ONCE = 2;
const LARGE_WAIT_MS = 10_000;
/** A deadline that the library need not refuse. */
const TIMEOUT = /^\d{1,10}$/;

/**
 * Answers unary RPCs that come as Connect's own JSON over HTTP/1.1, as the gateway sends them: the same interceptors
 * and handlers as the library runs, at a third of its cost, since no request becomes a web stream, no headers are
 * converted, and nothing is aborted that nobody listens to. Server streams in that JSON are `stream-json`'s, all else
 * (gRPC, binary messages, compression) is the library's.
 */
export function createUnaryJson(options: Options) {
  const { interceptors, jsonOptions } = options;
  const calls = new Map<string, Known>();
  const lanes = createLanes(LARGE_AT_ONCE, LARGE_WAIT_MS);
  const streams = createStreamJson({
    interceptors,
    shutdownSignal: options.shutdownSignal,
    maxBytesOf: maxMessageOf,
    parse: (method, json) => parse({ method, asked: undefined }, json, jsonOptions),
    textOf: (method, message) => textOf(method, message, jsonOptions),
  });

  function add(any: DescMethod, impl: Impl): void {
    if (any.methodKind === "server_streaming") streams.add(any, impl);
    if (any.methodKind !== "unary") return;
    const method = any as DescMethodUnary;
    const handle = async (request: UnaryRequest) => {
      const context = unaryContextOf(request);
      const answer = await impl(request.message, context);
      const message = create(method.output, answer as MessageInitShape<typeof method.output>);
      const { responseHeader: header, responseTrailer: trailer } = context;
      return { stream: false as const, service: method.parent, method, message, header, trailer };
    };
    const call = interceptors.reduceRight((next, one) => one(next), handle as ReturnType<Interceptor>);
    // Of an account: the path of a public read may be a secret, which nobody sends again.
    const isRead = getOption(method, http).pattern.case === "get" && requiredRole(rulesOf(method));
    const asked = isRead ? new LRUCache<string, Message>({ max: KEPT }) : undefined;
    calls.set(`/${method.parent.typeName}/${method.name}`, {
      method,
      call: call as unknown as Call,
      asked,
      maxBytes: maxMessageOf(method),
    });
  }

  async function answer(
    known: Known,
    req: IncomingMessage,
    res: ServerResponse,
    body: Buffer | undefined,
  ): Promise<void> {
    const { method, call } = known;
    const context = new UnaryContext(method, req, res, options.shutdownSignal);
    let status = 200;
    let text: string;
    let headers: OutgoingHttpHeaders;
    let leave: (() => void) | undefined;
    try {
      if (body && body.length > LARGE_BYTES) leave = await lanes.enter();
      const { message, header, trailer } = await call(context.request(parse(known, body, jsonOptions)));
      text = textOf(method, message, jsonOptions);
      headers = toHeaders(header, trailer);
    } catch (thrown) {
      const known = thrown instanceof NoLane ? unavailable() : thrown;
      const error = known instanceof ConnectError ? known : new ConnectError("internal error", Code.Internal);
      status = codeToHttpStatus(error.code);
      text = JSON.stringify(errorToJson(error, jsonOptions));
      // What another service's answer came with is not this one's.
      if (!error.isWireError) mergeNonProtocolHeaders(context.responseHeader, error.metadata);
      headers = toHeaders(context.responseHeader, context.responseTrailer);
    } finally {
      context.end();
      leave?.();
    }
    headers["content-type"] = JSON_TYPE;
    headers["content-length"] = Buffer.byteLength(text);
    res.writeHead(status, headers);
    // Text, so that it is written together with the headers.
    res.end(text);
  }

  return {
    /** Returns the router for handlers: what is registered with it is answered here, too. */
    recording(router: ConnectRouter): ConnectRouter {
      const both: ConnectRouter = {
        handlers: router.handlers,
        service(service, implementation, routerOptions) {
          for (const method of service.methods) {
            const impl = (implementation as Record<string, unknown>)[method.localName];
            if (typeof impl === "function") add(method, impl.bind(implementation) as Impl);
          }
          const readMaxBytes = Math.max(...service.methods.map(maxMessageOf));
          router.service(service, implementation, { readMaxBytes, ...routerOptions });
          return both;
        },
        rpc(method, impl, routerOptions) {
          add(method, impl as Impl);
          router.rpc(method, impl, { readMaxBytes: maxMessageOf(method), ...routerOptions });
          return both;
        },
      };
      return both;
    },

    /** Answers a request, or returns false when it is the library's. */
    answer(req: IncomingMessage, res: ServerResponse): boolean {
      if (streams.answer(req, res)) return true;
      const { headers } = req;
      const found = req.method === "POST" && headers["content-type"] === JSON_TYPE && calls.get(req.url!);
      if (!found || headers["content-encoding"] !== undefined) return false;
      const timeout = headers["connect-timeout-ms"];
      if (timeout !== undefined && !TIMEOUT.test(String(timeout))) return false;
      const chunks: Buffer[] = [];
      let size = 0;
      req.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size <= found.maxBytes) chunks.push(chunk);
      });
      req.on("end", () => {
        const body = size > found.maxBytes ? undefined : Buffer.concat(chunks);
        answer(found, req, res, body).catch((error: Error) => res.destroy(error));
      });
      // The client is gone.
      req.on("error", () => {});
      return true;
    },
  };
}

/** Beside a body, a message has what the path names. Messages between Berth's own services have no body. */
const BESIDE_BODY = 64 * 1024;
const INTERNAL_BYTES = 2 * 1024 * 1024;

/** Returns how many bytes a request message may have. */
function maxMessageOf(method: DescMethod): number {
  const rules = rulesOf(method);
  return rules.role === Role.SERVICE ? INTERNAL_BYTES : maxBodyOf(rules) + BESIDE_BODY;
}

function parse(
  { method, asked }: Pick<Known, "asked"> & { method: DescMethod },
  body: Buffer | undefined,
  options: Options["jsonOptions"],
): Message {
  if (!body) throw new ConnectError("the message is too large", Code.ResourceExhausted);
  const excess = findExcess(method.input, body);
  if (excess?.kind === "many") {
    const { path, reason, message } = excess.detail;
    throw invalid(path, reason, sentence(path, message));
  }
  if (excess?.kind === "deep") throw new ConnectError("the message is nested too deep", Code.InvalidArgument);
  try {
    const text = body.toString();
    if (!asked || body.length > KEPT_BYTES) return fromJsonString(method.input, text, options);
    const found = asked.get(text) ?? keepChecked(fromJsonString(method.input, text, options));
    asked.set(text, found);
    return found;
  } catch (error) {
    throw ConnectError.from(error, Code.InvalidArgument);
  }
}

function toHeaders(header: Headers, trailer: Headers): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of header) headers[name] = value;
  for (const [name, value] of trailer) headers[`trailer-${name}`] = value;
  return headers;
}

const texts = new WeakMap<Message, string>();

/** Says that a message will be sent again and is never changed: its JSON is made once. */
export function keepText<M extends Message>(message: M): M {
  texts.set(message, "");
  return message;
}

function textOf(method: DescMethod, message: Message, options: Options["jsonOptions"]): string {
  const kept = texts.get(message);
  if (kept) return kept;
  const text = toJsonString(method.output, message, options);
  if (kept === "") texts.set(message, text);
  return text;
}
