import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ContextValues,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type UnaryRequest,
} from "@connectrpc/connect";
import { requestHeaders } from "./request-headers.ts";

const contextKey = createContextKey<UnaryContext | undefined>(undefined);

/** Returns the context of a request that interceptors may have wrapped. */
export function unaryContextOf(request: UnaryRequest): UnaryContext {
  return request.contextValues.get(contextKey)!;
}

/** What a handler may know of its request. Its signal is made when somebody asks for it: handlers seldom do. */
export class UnaryContext implements HandlerContext {
  readonly service: HandlerContext["service"];
  readonly requestMethod = "POST";
  readonly protocolName = "connect";
  readonly responseHeader = new Headers();
  readonly responseTrailer = new Headers();
  readonly values: ContextValues = createContextValues();
  readonly method: DescMethodUnary;
  readonly requestHeader: Headers;
  readonly url: string;
  readonly #response: ServerResponse;
  readonly #shutdownSignal: AbortSignal;
  readonly #deadline: number | undefined;
  #aborting: AbortController | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    method: DescMethodUnary,
    req: IncomingMessage,
    response: ServerResponse,
    shutdownSignal: AbortSignal,
  ) {
    this.method = method;
    this.service = method.parent;
    this.#response = response;
    this.#shutdownSignal = shutdownSignal;
    this.requestHeader = requestHeaders(req.headers);
    this.url = `http://${req.headers.host ?? "localhost"}${req.url}`;
    const timeout = req.headers["connect-timeout-ms"];
    this.#deadline = timeout === undefined ? undefined : performance.now() + Number(timeout);
    this.values.set(contextKey, this);
  }

  timeoutMs = () => (this.#deadline === undefined ? undefined : this.#deadline - performance.now());

  get signal(): AbortSignal {
    if (this.#aborting) return this.#aborting.signal;
    const aborting = new AbortController();
    this.#aborting = aborting;
    const late = () => aborting.abort(new ConnectError("the operation timed out", Code.DeadlineExceeded));
    const left = this.timeoutMs();
    if (left !== undefined) this.#timer = setTimeout(late, Math.max(0, left));
    if (this.#response.destroyed) aborting.abort();
    this.#response.once("close", () => aborting.abort());
    const shutDown = () => aborting.abort(this.#shutdownSignal.reason);
    if (this.#shutdownSignal.aborted) shutDown();
    else this.#shutdownSignal.addEventListener("abort", shutDown, { signal: aborting.signal });
    return aborting.signal;
  }

  /** Returns what interceptors get. */
  request(message: Message): UnaryRequest {
    return new ContextRequest(this, message);
  }

  /** The request is answered: what waits for the signal goes on. */
  end(): void {
    clearTimeout(this.#timer);
    this.#aborting?.abort();
  }
}

/**
 * What interceptors get. A class, since a literal with a getter gives each request a hidden class of its own, which
 * lives until the next full collection and keeps the whole request with it.
 */
class ContextRequest implements UnaryRequest {
  readonly stream = false;
  readonly requestMethod = "POST";
  readonly message: Message;
  readonly method: DescMethodUnary;
  readonly service: UnaryRequest["service"];
  readonly url: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly #context: UnaryContext;

  constructor(context: UnaryContext, message: Message) {
    this.message = message;
    this.method = context.method;
    this.service = context.service;
    this.url = context.url;
    this.header = context.requestHeader;
    this.contextValues = context.values;
    this.#context = context;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }
}
