import { notBerth, Refusal, refusalOf, Unreachable } from "./errors.ts";
import {
  isFinal,
  isTransient,
  isUnderWay,
  ofCaller,
  pauseAfter,
  RETRIES,
  unreachableFor,
} from "./retries.ts";
import { anyOf, pause } from "./signals.ts";
import { follow, type StreamEvent, type StreamOptions } from "./streams.ts";

export type ClientOptions = {
  /** Where Berth is, such as `https://berth.example.com`. */
  baseUrl: string;
  /** A token, or a function that returns one for each request. */
  token?: string | (() => string | Promise<string>);
  /** How long one try may take until its answer has arrived, in ms; 60 000 by default. A stream may last. */
  timeoutMs?: number;
  /** How often a request is tried again after 429, 503 or a lost connection; 3 by default. */
  retries?: number;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
};

export type CallOptions = {
  signal?: AbortSignal;
  timeoutMs?: number;
  retries?: number;
  /** Instead of the key that is made for each call of a POST: the same key gives the same effect for 24 hours. */
  idempotencyKey?: string;
  /** An ETag: the call is refused with `revision_conflict` if it is no longer current. */
  ifMatch?: string;
  /** Called with the head of the answer: its ETag, its `X-Request-Id`, what the rate limit has left. */
  onHead?: (head: { status: number; headers: Headers }) => void;
};

type Query = Record<string, unknown>;
type Sent = {
  body?: unknown;
  query?: Query | undefined;
  options?: CallOptions | undefined;
  /** Whether a second try would not be known to be the same request. */
  once?: boolean;
  /** Whether it is enough that the resource is gone. */
  deletes?: boolean;
  /** The type of the answer, which is then a text; JSON by default. */
  accept?: string;
};

const JSON_TYPE = "application/json";
const TIMEOUT_MS = 60_000;

/** Sends requests, tries again what may be tried again, and keeps streams going. */
export class Caller {
  readonly #options: ClientOptions;
  readonly #base: string;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#base = `${options.baseUrl.replace(/\/+$/, "").replace(/\/v1$/, "")}/v1`;
  }

  /** Resolves to the body of the answer. Throws `Refusal`, `Unreachable`, or the signal's reason. */
  async call<T>(method: string, path: string, sent: Sent): Promise<T> {
    const { body, query, options = {}, deletes = false } = sent;
    const { signal, timeoutMs = this.#options.timeoutMs ?? TIMEOUT_MS, onHead } = options;
    const retries = options.retries ?? this.#options.retries ?? RETRIES;
    // After its own effect an If-Match is out of date: a second try would be refused for what the first one did.
    const once = sent.once || options.ifMatch !== undefined;
    const headers: Record<string, string> = { accept: sent.accept ?? JSON_TYPE };
    if (body !== undefined) headers["content-type"] = JSON_TYPE;
    if (options.ifMatch) headers["if-match"] = options.ifMatch;
    if (method === "POST" && !sent.once)
      headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
    const text = body === undefined ? null : JSON.stringify(body);
    // Whether an earlier try may have had its effect, though its answer did not arrive.
    let mayBeDone = false;
    for (let attempt = 0; ; attempt++) {
      const late = AbortSignal.timeout(timeoutMs);
      let error: unknown;
      let isLost = false;
      try {
        const init = { method, headers, body: text, signal: anyOf(signal, late) };
        const response = await this.#fetch(path + queryOf(query), init);
        await ofCaller(async () => onHead?.({ status: response.status, headers: response.headers }));
        if (response.ok) return (await bodyOf(response, sent.accept)) as T;
        error = await refusalOf(response);
        // What a proxy says that gets no answer from Berth.
        isLost = error instanceof Unreachable && [502, 503, 504].includes(response.status);
      } catch (thrown) {
        if (isFinal(thrown)) throw thrown;
        signal?.throwIfAborted();
        isLost = !(thrown instanceof Unreachable);
        error = unreachableFor(thrown, late.aborted ? timeoutMs : undefined);
      }
      if (deletes && mayBeDone && error instanceof Refusal && error.status === 404) return undefined as T;
      const again = isLost ? !once : isTransient(error) || (mayBeDone && isUnderWay(error));
      if (!again || attempt >= retries) throw error;
      mayBeDone ||= isLost;
      await pause(pauseAfter(attempt, error), signal);
    }
  }

  /** Yields the events of a stream until the server ends it. Throws as `follow` of streams.ts does. */
  follow<E extends StreamEvent<string, unknown>>(
    path: string,
    { query, options = {} }: { query?: Query | undefined; options?: StreamOptions | undefined },
  ): AsyncGenerator<E, void> {
    const retries = this.#options.retries ?? RETRIES;
    return follow<E>((init) => this.#fetch(path + queryOf(query), init), options, retries);
  }

  async #fetch(path: string, init: RequestInit & { headers: Record<string, string> }): Promise<Response> {
    const { token } = this.#options;
    const bearer = await ofCaller(async () => (typeof token === "function" ? await token() : token));
    if (bearer) init.headers.authorization = `Bearer ${bearer}`;
    const send = this.#options.fetch ?? fetch;
    // A redirect would carry the token elsewhere.
    return send(this.#base + path, { ...init, redirect: "error" });
  }
}

async function bodyOf(response: Response, accept = "json"): Promise<unknown> {
  const text = await response.text();
  if (text === "") return undefined;
  if (!response.headers.get("content-type")?.includes(accept))
    throw notBerth(`with something other than ${accept.toUpperCase()}`, text);
  return accept === "json" ? JSON.parse(text) : text;
}

function queryOf(query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) given.set(name, String(value));
  return given.size > 0 ? `?${given}` : "";
}
