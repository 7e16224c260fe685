import { createHash } from "node:crypto";
import {
  create,
  type DescMethod,
  fromBinary,
  getOption,
  type Message,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { createContextKey, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { method as methodRules, Role } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { http } from "../../../proto/gen/google/api/annotations_pb.ts";
import { open, seal } from "../crypto/aead.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, one, type Pool, type Tx, transaction } from "../postgres/db.ts";
import type { Caller } from "../rpc/caller-token.ts";
import { who } from "../rpc/interceptor.ts";
import { conflict } from "../rpc/refusals.ts";
import { SWEEP_ANSWERS } from "../tasks/shared-tasks.ts";
import { startTask } from "../tasks/task.ts";

/**
 * Header in which the gateway passes a client's Idempotency-Key on: an id made of user, bound account and key, then, for
 * each key of the installation and each secret of the caller, a MAC of the request and a key that seals its answer.
 */
export const IDEMPOTENCY_HEADER = "berth-idempotency";
/** Header of an answer that is a replay. */
export const REPLAYED_HEADER = "berth-replayed";

/** Made of a caller's key and request under one of the installation's keys; 32 bytes each. */
type KeySecret = { request: Buffer; seal: Buffer };
type Key = { id: Buffer; secrets: KeySecret[] };
/** The key of a request, and whether its handler used it. */
type KeyUse = { key: Key | undefined; used: boolean };

const keyUseKey = createContextKey<KeyUse | undefined>(undefined);

/** Returns the value of the header. */
export function idempotencyHeader(id: Buffer, secrets: KeySecret[]): string {
  const parts = [id, ...secrets.flatMap(({ request, seal }) => [request, seal])];
  return parts.map((part) => part.toString("base64url")).join(".");
}

/** Whether a method takes an Idempotency-Key: it is a POST, and needs a token. */
function takesKey(method: DescMethod): boolean {
  const { role } = getOption(method, methodRules);
  const byToken = role !== Role.PUBLIC && role !== Role.SERVICE;
  return byToken && method.methodKind === "unary" && getOption(method, http).pattern.case === "post";
}

/**
 * Runs the one transaction of a POST (docs/conventions.md#idempotency): the changes of `work` and the answer it returns are
 * committed together. A repeated request gets the stored answer and changes nothing. Throws 409 conflict while the first
 * request is under way, and 409 idempotency_key_reused when the key was used for another request. Without a key, and in
 * methods that take none, it is `transaction`.
 */
export async function effect<Answer extends object>(
  pool: Pool,
  ctx: HandlerContext,
  work: (tx: Tx) => Promise<Answer>,
): Promise<Answer> {
  const use = ctx.values.get(keyUseKey);
  if (use?.used) throw new Error(`${ctx.method.name} has a second effect, which its key cannot cover`);
  if (use) use.used = true;
  const key = use?.key;
  if (!key) return transaction(pool, work);
  const made = await transaction(pool, async (tx) => {
    if (!(await claim(tx, key))) return undefined;
    const message = create(ctx.method.output, (await work(tx)) as MessageInitShape<typeof ctx.method.output>);
    const sealed = seal(
      key.secrets[0]!.seal,
      contextOf(key.id, ctx.method),
      toBinary(ctx.method.output, message),
    );
    await storeAnswer(tx, key.id, sealed);
    return message;
  });
  const answer = made ?? (await findAnswer(pool, key, ctx.method));
  if (!answer) throw underWay();
  if (!made) ctx.responseHeader.set(REPLAYED_HEADER, "1");
  return answer as unknown as Answer;
}

/** As `effect`, for a POST that changes nothing in the database. */
export async function answered<Answer extends object>(
  pool: Pool,
  ctx: HandlerContext,
  answer: Answer,
): Promise<Answer> {
  const use = ctx.values.get(keyUseKey);
  if (use?.key) return effect(pool, ctx, async () => answer);
  if (use) use.used = true;
  return answer;
}

/**
 * Answers a repeated request before its handler checks anything. A method that takes a key but answers with neither
 * `effect` nor `answered` fails, because a repeated request would act again.
 */
export function idempotencyInterceptor(pool: Pool): Interceptor {
  const methods = new Map<DescMethod, boolean>();
  return (next) => async (req) => {
    const keyed = methods.get(req.method) ?? takesKey(req.method);
    methods.set(req.method, keyed);
    if (!keyed || req.stream) return next(req);
    const { caller } = who({ values: req.contextValues });
    const use: KeyUse = { key: parseKey(req.header.get(IDEMPOTENCY_HEADER), caller), used: false };
    const message = use.key && (await findAnswer(pool, use.key, req.method));
    if (message) {
      // Connect does not set the content type of a response made here: it is that of the request.
      const type = req.header.get("content-type") ?? "";
      const header = new Headers({ "content-type": type, [REPLAYED_HEADER]: "1" });
      const { service, method } = req;
      return { stream: false, service, method, header, trailer: new Headers(), message };
    }
    req.contextValues.set(keyUseKey, use);
    const response = await next(req);
    if (!use.used)
      throw new Error(`${req.method.name} answers without \`effect\`: a repeated request would act again`);
    return response;
  };
}

const SWEPT_AT_ONCE = 10_000;

/** Deletes answers older than 24 hours until it is stopped. */
export function sweepAnswers(pool: Pool, log: Logger) {
  const text = `delete from kept_answers where id = any(array(
       select id from kept_answers where at <= now() - interval '24 hours' limit $1 for update skip locked))`;
  const sweep = async () =>
    (await execute(pool, "answers_sweep", text, [SWEPT_AT_ONCE])) === SWEPT_AT_ONCE ? "more" : undefined;
  return startTask(SWEEP_ANSWERS, sweep, { log });
}

// The id depends on the verified caller, so the header alone does not find the answer of another caller.
function parseKey(header: string | null, caller: Caller): Key | undefined {
  if (!header || (caller.kind !== "user" && caller.kind !== "machine")) return undefined;
  const [id, ...parts] = header.split(".").map((part) => Buffer.from(part, "base64url"));
  const genuine = [id, ...parts].every((part) => part?.length === 32) && parts.length % 2 === 0;
  if (!id || !genuine || parts.length === 0) return undefined;
  const secrets: KeySecret[] = [];
  for (let at = 0; at < parts.length; at += 2) secrets.push({ request: parts[at]!, seal: parts[at + 1]! });
  const own = createHash("sha256").update(`${caller.kind}\n${caller.id}\n`).update(id).digest();
  return { id: own, secrets };
}

/**
 * Takes the key for this transaction. Returns false when it was used within 24 hours or another transaction holds it. It
 * never waits: duplicates could use up the pool.
 */
async function claim(tx: Tx, { id, secrets }: Key): Promise<boolean> {
  const taken = await execute(
    tx,
    "answer_claim",
    `insert into kept_answers as k (id, request)
     select $1, $2 where pg_try_advisory_xact_lock($3)
     on conflict (id) do update set request = excluded.request, answer = null, at = excluded.at
     where k.at <= now() - interval '24 hours'`,
    [id, secrets[0]!.request, id.readBigInt64BE()],
  );
  return taken === 1;
}

function storeAnswer(tx: Tx, id: Buffer, answer: Buffer): Promise<number> {
  return execute(tx, "answer_keep", "update kept_answers set answer = $2 where id = $1", [id, answer]);
}

/** Returns the answer that is stored under a key, if any. Throws 409 when it belongs to another request. */
async function findAnswer(db: Db, key: Key, method: DescMethod): Promise<Message | undefined> {
  const stored = await one<{ request: Buffer; answer: Buffer }>(
    db,
    "answer_find",
    "select request, answer from kept_answers where id = $1 and at > now() - interval '24 hours'",
    [key.id],
  );
  if (!stored) return undefined;
  const secret = key.secrets.find(({ request }) => request.equals(stored.request));
  if (!secret) throw reused();
  const plain = open(secret.seal, contextOf(key.id, method), stored.answer);
  if (!plain) throw new Error(`The stored answer to a request of ${method.name} does not open.`);
  return fromBinary(method.output, plain);
}

function underWay() {
  const message = "The first request with this Idempotency-Key is still under way.";
  return conflict("conflict", message, { retryAfter: 1 });
}

function reused() {
  const message =
    "This Idempotency-Key was used for another request, or by a token that may do more or less than this one.";
  return conflict("idempotency_key_reused", message);
}

// Binds a sealed answer to its key and method.
function contextOf(id: Buffer, { parent, name }: DescMethod): Buffer {
  return Buffer.concat([id, Buffer.from(`${parent.typeName}/${name}`)]);
}
