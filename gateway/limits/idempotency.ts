import { createHash, createHmac, hkdfSync } from "node:crypto";
import { open, seal } from "../../services/kit/crypto/aead.ts";
import { causeOf, isTransient } from "../../services/kit/failures.ts";
import { idempotencyHeader } from "../../services/kit/idempotency/idempotency.ts";
import { newId } from "../../services/kit/ids.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { Pool } from "../../services/kit/postgres/db.ts";
import { type Problem, problem, unreachable, validationFailed } from "../http/problem.ts";
import type { GatewayResponse } from "../http/response.ts";
import { isObject } from "../routing/json-shape.ts";
import {
  beginIdempotent,
  findIdempotent,
  finishIdempotent,
  releaseIdempotent,
  resumeIdempotent,
  yieldIdempotent,
} from "./sql.ts";

/** How long a request may take before it may be repeated; longer than the deadline of every call. */
export const LEASE_MS = 60_000;

const KEY = /^[\x21-\x7e]{1,255}$/;

/** A POST with an Idempotency-Key. `url` includes the query. */
export type KeyedRequest = {
  /** Whose key it is: others may use the same one. */
  owner: string;
  /** What responses are sealed with, beside the installation's key. */
  secret: string;
  /** What an older gateway sealed them with. */
  formerSecret?: string;
  key: string;
  method: string;
  url: string;
  body: Buffer;
};

export type Idempotency = ReturnType<typeof createIdempotency>;

/**
 * Binds a caller's key to one request for 24 hours and replays its response (docs/conventions.md#idempotency). The
 * service that owns the route stores the key with what it changes. So while the outcome is unknown, the same
 * request is forwarded again and the service decides, and another request is refused. A refusal releases the key.
 * Responses are sealed under a key derived from the installation's key and the caller's secret; requests are MACs under
 * another. The database alone reveals neither responses nor bodies, and no caller's secret opens another's.
 */
export function createIdempotency(options: { pool: Pool; keys: Buffer[]; log: Logger; leaseMs?: number }) {
  const { pool, keys, log, leaseMs = LEASE_MS } = options;

  /** Whether a response says what became of the request: a change, or certainly none. */
  const isKnown = ({ status, retryAfter }: GatewayResponse) => status < 500 && retryAfter === undefined;

  async function perform(
    { id, holder, first }: Attempt,
    secret: Secret,
    work: () => Promise<GatewayResponse>,
  ) {
    const response = await work();
    try {
      if (response.status < 400)
        await finishIdempotent(pool, id, holder, response.status, sealResponse(secret, id, response));
      // An earlier attempt may still take effect, so only the refusal of the first one releases the key.
      else if (first && isKnown(response)) await releaseIdempotent(pool, id, holder);
      else await yieldIdempotent(pool, id, holder);
    } catch (error) {
      // The work is done, so its response is sent. The key stays claimed until its lease ends.
      log.warn({ cause: causeOf(error) }, "a response could not be stored for its Idempotency-Key");
    }
    return response;
  }

  return {
    /**
     * Returns the stored response, or that of `work`, which runs at most once at a time and sends the service the
     * header it receives. Returns a refusal for a malformed key, and for one that is in use.
     */
    async run(
      request: KeyedRequest,
      work: (header: string) => Promise<GatewayResponse>,
    ): Promise<GatewayResponse | Problem> {
      if (!KEY.test(request.key)) return invalidKey();
      const id = idOf(request);
      const { secret, formerSecret = secret } = request;
      // The first takes keys; those before it in time still open what they took.
      const secrets = [...new Set([secret, formerSecret])].flatMap((text) =>
        keys.map((key) => secretOf(key, text)),
      );
      const prints = secrets.map((secret) => fingerprintsOf(secret, request));
      const header = idempotencyHeader(
        id,
        secrets.map(({ effect }, at) => ({ request: prints[at]!.json, seal: effect })),
      );
      const holder = newId("run");
      // Sealed with what the request is known by, so that it opens again.
      const attempt = (first: boolean, by: number) =>
        perform({ id, holder, first }, secrets[by]!, () => work(header));
      try {
        const { bytes, json } = prints[0]!;
        if (await beginIdempotent(pool, { id, bytes, json, holder, leaseMs })) return await attempt(true, 0);
        const stored = await findIdempotent(pool, id);
        if (!stored) return inProgress();
        const match = prints.findIndex(
          (own) => own.bytes.equals(stored.request) || (stored.json && own.json.equals(stored.json)),
        );
        if (match < 0) return reused();
        if (stored.status !== null) return openResponse(secrets[match]!, id, stored.status, stored.answer!);
        if (await resumeIdempotent(pool, { id, request: stored.request, holder, leaseMs }))
          return await attempt(false, match);
        return inProgress();
      } catch (error) {
        if (!isTransient(error)) log.error({ err: error }, "an Idempotency-Key failed");
        return unreachable("database", error);
      }
    },
  };
}

type Attempt = { id: Buffer; holder: string; first: boolean };

const invalidKey = () =>
  validationFailed([
    { path: "Idempotency-Key", reason: "invalid_key", message: "must be 1-255 visible ASCII characters" },
  ]);

const reused = () =>
  problem(
    409,
    "idempotency_key_reused",
    "This Idempotency-Key was used for another request, or by a token that may do more or less than this one.",
  );

const inProgress = () =>
  problem(409, "conflict", "The first request with this Idempotency-Key is still under way.", {
    retryAfter: 1,
  });

/** `seal` and `mac` stay in the gateway; the service seals its response with `effect`. */
type Secret = { seal: Buffer; mac: Buffer; effect: Buffer };

function secretOf(key: Buffer, text: string): Secret {
  const derive = (use: string, bytes: number) => Buffer.from(hkdfSync("sha256", key, text, use, bytes));
  const own = derive("berth idempotent requests", 64);
  return { seal: own.subarray(0, 32), mac: own.subarray(32), effect: derive("berth idempotent effects", 32) };
}

function idOf({ owner, key }: KeyedRequest): Buffer {
  return createHash("sha256").update(`${owner}\n${key}`).digest();
}

/** Returns MACs of a request: of its bytes, which is all that an older gateway compares, and of its canonical JSON. */
function fingerprintsOf({ mac }: Secret, { method, url, body }: KeyedRequest) {
  const print = (content: Buffer | string) =>
    createHmac("sha256", mac).update(`${method} ${url}\n`).update(content).digest();
  return { bytes: print(body), json: print(`json ${canonical(body)}`) };
}

/** Returns the same text for all bodies that are equal as JSON. The body is valid; no body counts as `{}`. */
function canonical(body: Buffer): string {
  const sorted = (_: string, value: unknown) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
  return body.length === 0 ? "{}" : JSON.stringify(JSON.parse(body.toString()), sorted);
}

const contextOf = (id: Buffer, status: number) => Buffer.concat([id, Buffer.from(String(status))]);

function sealResponse(secret: Secret, id: Buffer, response: GatewayResponse): Buffer {
  const { status, etag, retryAfter, code, revalidate, body } = response;
  const head = JSON.stringify({ etag, retryAfter, code, revalidate, empty: body === undefined });
  const plain = Buffer.concat([Buffer.from(`${head}\n`), body ?? Buffer.alloc(0)]);
  return seal(secret.seal, contextOf(id, status), plain);
}

function openResponse(secret: Secret, id: Buffer, status: number, sealed: Buffer): GatewayResponse {
  const plain = open(secret.seal, contextOf(id, status), sealed);
  if (!plain) throw new Error("The response stored for an Idempotency-Key cannot be decrypted.");
  const end = plain.indexOf("\n");
  const { empty, ...head } = JSON.parse(plain.subarray(0, end).toString()) as Partial<GatewayResponse> & {
    empty: boolean;
  };
  return { ...head, status, body: empty ? undefined : plain.subarray(end + 1), replayed: true };
}
