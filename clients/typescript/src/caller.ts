import { notBerth, Refusal, reasonOf, refusalIn, refusalOf, Unreachable } from "./errors.ts";
import { type Frame, framesOf } from "./sse.ts";

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

export type StreamOptions = {
  signal?: AbortSignal;
  /** The `id` of the last event that was seen: the stream goes on after it. */
  lastEventId?: string;
  /** Called when a connection was lost and the stream is about to be resumed. */
  onReconnect?: (error: unknown) => void;
};

/** One event of a stream. `id` is what to resume after. */
export type StreamEvent<Name extends string, Data> = { event: Name; data: Data; id?: string };

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
const NO_STREAM = "The server does not offer this stream. It may be of an earlier version.";
const TIMEOUT_MS = 60_000;
const RETRIES = 3;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 60_000;
/** A stream sends something every 15 s. */
const SILENCE_MS = 45_000;

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

  /**
   * Follows a stream until the server ends it. After a lost connection it goes on after the last event. Throws `Refusal`
   * when the caller loses access, and `Unreachable` after as many tries in a row as requests have.
   */
  async *follow<E extends { event: string; data: unknown; id?: string }>(
    path: string,
    { query, options = {} }: { query?: Query | undefined; options?: StreamOptions | undefined },
  ): AsyncGenerator<E, void> {
    const { signal, onReconnect } = options;
    let { lastEventId } = options;
    const retries = this.#options.retries ?? RETRIES;
    for (let failures = 0; ; ) {
      let waitMs: number | undefined;
      let reason: unknown;
      const silence = silenceAfter(SILENCE_MS);
      try {
        const headers: Record<string, string> = { accept: "text/event-stream" };
        if (lastEventId) headers["last-event-id"] = lastEventId;
        const init = { method: "GET", headers, signal: anyOf(signal, silence.signal) };
        const response = await this.#fetch(path + queryOf(query), init);
        if (!response.ok) throw await refusalOf(response);
        if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
          await response.body?.cancel();
          throw final(new Unreachable(NO_STREAM));
        }
        for await (const frame of framesOf(response.body!, silence.heard)) {
          failures = 0;
          if (frame.id !== undefined) lastEventId = frame.id;
          if (frame.retry !== undefined) waitMs = frame.retry;
          if (frame.event === "problem") throw refusalIn(frame.data);
          if (frame.event !== undefined) yield eventOf<E>(frame);
        }
        // Without a hint when to come back the stream is complete.
        if (waitMs === undefined) return;
        reason = new Unreachable("The server ends its streams.");
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof Refusal ? !isTransient(error) : isFinal(error)) throw error;
        if (failures++ >= retries) throw error instanceof Refusal ? error : unreachableFor(error);
        waitMs = pauseAfter(failures - 1, error);
        reason = error;
      } finally {
        silence.end();
      }
      onReconnect?.(reason);
      await pause(waitMs, signal);
    }
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

/** What no try mends: what code of the caller threw, and an answer that will be the same. */
const finals = new WeakSet<object>();
const isFinal = (error: unknown): boolean => typeof error === "object" && error !== null && finals.has(error);

function final<E extends object>(error: E): E {
  finals.add(error);
  return error;
}

async function ofCaller<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (typeof error === "object" && error !== null) final(error);
    throw error;
  }
}

const isTransient = (error: unknown): boolean =>
  error instanceof Refusal && (error.status === 429 || error.code === "unavailable");

/** Whether the request before, which has the same key, is still being answered. */
const isUnderWay = (error: unknown): boolean =>
  error instanceof Refusal && error.status === 409 && error.code === "conflict";

/** Returns the pause before the next try, in ms: what the server asks for, else longer each time, and never in step. */
function pauseAfter(attempt: number, error: unknown): number {
  const asked = error instanceof Refusal ? error.retryAfter : undefined;
  const ms = asked !== undefined ? asked * 1_000 : FIRST_PAUSE_MS * 2 ** attempt;
  return Math.min(MAX_PAUSE_MS, ms * (1 + Math.random() / 4));
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Returns a signal that aborts when nothing was heard for so long. */
function silenceAfter(ms: number) {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(new Unreachable(`Nothing was heard for ${ms / 1_000} s.`)), ms);
  };
  heard();
  return { signal: controller.signal, heard, end: () => clearTimeout(timer) };
}

function unreachableFor(cause: unknown, timeoutMs?: number): Unreachable {
  if (cause instanceof Unreachable) return cause;
  const why = timeoutMs === undefined ? reasonOf(cause) : `it did not answer within ${timeoutMs / 1_000} s`;
  return new Unreachable(`The server cannot be reached: ${why}.`, { cause });
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

/** Returns a signal that aborts when either does. */
export const anyOf = (signal: AbortSignal | undefined, other: AbortSignal): AbortSignal =>
  signal ? AbortSignal.any([signal, other]) : other;

const eventOf = <E extends { event: string; data: unknown; id?: string }>({ event, data, id }: Frame): E =>
  ({ event, data: JSON.parse(data), ...(id !== undefined && { id }) }) as E;
