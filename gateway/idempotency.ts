import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { Pool } from "../services/kit/db.ts";
import { newId } from "../services/kit/ids.ts";
import type { Logger } from "../services/kit/log.ts";
import type { Answer } from "./answer.ts";
import type { Identified } from "./auth.ts";
import { type Problem, problem, unavailable, validationFailed } from "./problem.ts";
import { beginIdempotent, findIdempotent, finishIdempotent, type Kept, releaseIdempotent } from "./sql.ts";

/** How long a request may be under way before its key is free again; above the deadline of every call. */
export const LEASE_MS = 60_000;

const KEY = /^[\x21-\x7e]{1,255}$/;

/** A POST that carries an Idempotency-Key. `url` holds the query as well. */
export type KeyedRequest = { by: Identified; key: string; method: string; url: string; body: Buffer };

export type Idempotency = ReturnType<typeof createIdempotency>;

/**
 * Runs a request once per caller and key within 24 hours and replays its answer after that. An answer
 * of 500 and above is not kept. What is stored is sealed under a key made of the installation's key and
 * the caller's token, and the request's fingerprint is a MAC under another: the database alone reveals
 * neither answers nor bodies.
 */
export function createIdempotency(options: { pool: Pool; keys: Buffer[]; log: Logger; leaseMs?: number }) {
  const { pool, keys, log, leaseMs = LEASE_MS } = options;

  async function perform(id: Buffer, holder: string, secret: Secret, work: () => Promise<Answer>) {
    const answer = await work();
    try {
      if (answer.status >= 500) await releaseIdempotent(pool, id, holder);
      else await finishIdempotent(pool, id, holder, answer.status, seal(secret, id, answer));
    } catch (error) {
      // The work is done: its answer goes out. The key stays taken until its lease ends.
      log.warn({ err: error }, "an answer could not be kept for its Idempotency-Key");
    }
    return answer;
  }

  return {
    /** The answer of `work`, which runs at most once at a time, or the one that is kept. */
    async run(request: KeyedRequest, work: () => Promise<Answer>): Promise<Answer | Problem> {
      if (!KEY.test(request.key)) return badKey();
      const id = idOf(request);
      const secrets = keys.map((key) => secretOf(key, request.by.token));
      const requests = secrets.map((secret) => fingerprint(secret, request));
      const holder = newId("run");
      let kept: Kept | undefined;
      try {
        if (await beginIdempotent(pool, { id, requests, holder, leaseMs }))
          return await perform(id, holder, secrets[0]!, work);
        kept = await findIdempotent(pool, id);
      } catch (error) {
        log.warn({ err: error }, "Idempotency-Key can not be honoured");
        return unavailable();
      }
      if (!kept) return underWay();
      const match = requests.findIndex((candidate) => candidate.equals(kept.request));
      if (match < 0) return reused();
      if (kept.status === null) return underWay();
      return unseal(secrets[match]!, id, kept.status, kept.answer!);
    },
  };
}

const badKey = () =>
  validationFailed([
    { path: "Idempotency-Key", reason: "invalid_key", message: "must be 1-255 visible ASCII characters" },
  ]);

const reused = () =>
  problem(
    409,
    "idempotency_key_reused",
    "This Idempotency-Key was used for another request or by another token.",
  );

const underWay = () =>
  problem(409, "conflict", "The first request with this Idempotency-Key is still under way.", {
    retryAfter: 1,
  });

type Secret = { seal: Buffer; mac: Buffer };

function secretOf(key: Buffer, token: string): Secret {
  const bytes = Buffer.from(hkdfSync("sha256", key, token, "berth idempotent requests", 64));
  return { seal: bytes.subarray(0, 32), mac: bytes.subarray(32) };
}

function idOf({ by, key }: KeyedRequest): Buffer {
  const scope = `${by.known.userId}\n${by.known.boundTo ?? ""}\n${key}`;
  return createHash("sha256").update(scope).digest();
}

function fingerprint(secret: Secret, { method, url, body }: KeyedRequest): Buffer {
  return createHmac("sha256", secret.mac).update(`${method} ${url}\n`).update(body).digest();
}

const NONCE = 12;
const TAG = 16;

function seal(secret: Secret, id: Buffer, answer: Answer): Buffer {
  const { etag, retryAfter, code, revalidate, body } = answer;
  const head = JSON.stringify({ etag, retryAfter, code, revalidate, empty: body === undefined });
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv("aes-256-gcm", secret.seal, nonce).setAAD(
    Buffer.concat([id, Buffer.from(String(answer.status))]),
  );
  const parts = [cipher.update(`${head}\n`), cipher.update(body ?? ""), cipher.final()];
  return Buffer.concat([nonce, cipher.getAuthTag(), ...parts]);
}

function unseal(secret: Secret, id: Buffer, status: number, sealed: Buffer): Answer {
  const decipher = createDecipheriv("aes-256-gcm", secret.seal, sealed.subarray(0, NONCE))
    .setAAD(Buffer.concat([id, Buffer.from(String(status))]))
    .setAuthTag(sealed.subarray(NONCE, NONCE + TAG));
  const plain = Buffer.concat([decipher.update(sealed.subarray(NONCE + TAG)), decipher.final()]);
  const end = plain.indexOf("\n");
  const { empty, ...head } = JSON.parse(plain.subarray(0, end).toString()) as Partial<Answer> & {
    empty: boolean;
  };
  return { ...head, status, body: empty ? undefined : plain.subarray(end + 1), replayed: true };
}
