import { createHash, randomBytes } from "node:crypto";
import { type Client, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccountService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { createLog } from "../log.ts";
import { createPool, type Pool, transaction } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { type RunningServer, serve } from "../process/server.ts";
import type { Caller } from "../rpc/caller-token.ts";
import { conflict } from "../rpc/refusals.ts";
import { clientAs, eventually, testDatabase, testKeys } from "../testing/testing.ts";
import {
  answered,
  effect,
  IDEMPOTENCY_HEADER,
  idempotencyHeader,
  REPLAYED_HEADER,
  sweepAnswers,
} from "./idempotency.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;
let server: RunningServer;
/** Set while a test wants effects to wait: they do until it resolves. */
let gate: Promise<void> | undefined;
let inside = 0;

beforeAll(async () => {
  database = await testDatabase(["kit"]);
  pool = createPool(database.url("kit"));
  await migrate(pool);
  await pool.query("create table effects (handle text, id text)");
  server = await serve({
    host: "127.0.0.1",
    port: 0,
    grpcPort: 0,
    keys: testKeys,
    log: createLog("kit-test", "silent"),
    answers: pool,
    ready: async () => true,
    routes: (router) =>
      router.service(AccountService, {
        createAccount: async ({ handle }, ctx) => {
          if (handle === "no-effect") return { id: "acc_x", handle };
          if (handle === "nothing")
            return answered(pool, ctx, { id: randomBytes(8).toString("hex"), handle });
          const act = () =>
            effect(pool, ctx, async (tx) => {
              const id = randomBytes(8).toString("hex");
              inside++;
              await tx.query("insert into effects values ($1, $2)", [handle, id]);
              await gate;
              if (handle === "refused") throw conflict("handle_taken", "Another account has this handle.");
              return { id, handle };
            });
          if (handle === "twice") await act();
          return act();
        },
        getAccount: () => transaction(pool, async () => ({ id: "acc_1", handle: "acme" })),
      }),
  });
});

afterAll(async () => {
  await server.stop();
  await pool.end();
  await database.drop();
});

type Sent = Partial<{ id: Buffer; secrets: { request: Buffer; seal: Buffer }[]; caller: Partial<Caller> }>;

const anyKey = () => randomBytes(32);
const secretOf = (text: string) => ({
  request: createHash("sha256").update(`request ${text}`).digest(),
  seal: createHash("sha256").update(`seal ${text}`).digest(),
});

/** Creates as a gateway asks for it under a key; gives the id and whether it was given before. */
async function createUnder(
  handle: string,
  { id = anyKey(), secrets = [secretOf(handle)], caller = {} }: Sent,
) {
  let replayed = false;
  const client: Client<typeof AccountService> = clientAs(AccountService, server.port, caller);
  const account = await client.createAccount(
    { handle },
    {
      headers: { [IDEMPOTENCY_HEADER]: idempotencyHeader(id, secrets) },
      onHeader: (header) => {
        replayed = header.get(REPLAYED_HEADER) === "1";
      },
    },
  );
  return { id: account.id, replayed };
}

const refused = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  const found = error instanceof ConnectError ? error.findDetails(ProblemSchema)[0] : undefined;
  return found ? `${found.status} ${found.code}` : String(error);
};

const effectsOf = async (handle: string) =>
  (await pool.query<{ id: string }>("select id from effects where handle = $1", [handle])).rows.map(
    (row) => row.id,
  );

test("an answer that an earlier version kept is given again", async () => {
  const stored = (text: string) => Buffer.from(text, "base64");
  const kept = [
    stored("zEGa4KC/X5JFJ3oSld1L5IJTikUugrG5/B4NAwUhZ0E="),
    secretOf("sample").request,
    stored("1pXXpIHyELofrxphgdvZpM3gqPoVzB3pXrQTqAtHGlZkslrZevAQpZr6U7PtfFFkLN7LW/Ps"),
  ];
  await pool.query("insert into kept_answers (id, request, answer) values ($1, $2, $3)", kept);
  const answer = await createUnder("sample", { id: Buffer.alloc(32, 5) });
  expect(answer).toEqual({ id: "39422d4970a9ed44", replayed: true });
});

test("a key has one effect, and its answer is given again", async () => {
  const id = anyKey();
  const first = await createUnder("once", { id });
  expect(await createUnder("once", { id })).toEqual({ id: first.id, replayed: true });
  expect(await effectsOf("once")).toEqual([first.id]);
  const other = await createUnder("once", {});
  expect(other.id).not.toBe(first.id);
});

test("many at once have one effect; while it is under way the others are told to wait, and none waits", async () => {
  const id = anyKey();
  const before = inside;
  let open = () => {};
  gate = new Promise((resolve) => {
    open = resolve;
  });
  const first = createUnder("many", { id });
  await eventually("the first is under way", async () => inside > before);
  const others = Array.from({ length: 40 }, () => refused(createUnder("many", { id })));
  expect(new Set(await Promise.all(others))).toEqual(new Set(["409 conflict"]));
  open();
  gate = undefined;
  const { id: made } = await first;
  const after = await Promise.all(Array.from({ length: 40 }, () => createUnder("many", { id })));
  expect(new Set(after.map((one) => `${one.id} ${one.replayed}`))).toEqual(new Set([`${made} true`]));
  expect(await effectsOf("many")).toEqual([made]);
});

test("whoever comes too late for the lookup and too early for the lock gets the answer as well", async () => {
  const id = anyKey();
  const racing = await Promise.allSettled(Array.from({ length: 30 }, () => createUnder("race", { id })));
  const answers = racing.flatMap((one) => (one.status === "fulfilled" ? [one.value.id] : []));
  expect(await effectsOf("race")).toEqual([...new Set(answers)]);
});

test("a refusal does not use the key up", async () => {
  const id = anyKey();
  expect(await refused(createUnder("refused", { id }))).toBe("409 handle_taken");
  expect((await createUnder("better", { id })).replayed).toBe(false);
});

test("another request under the key is refused, by another token too", async () => {
  const id = anyKey();
  await createUnder("mine", { id });
  expect(await refused(createUnder("other", { id }))).toBe("409 idempotency_key_reused");
  expect(await effectsOf("other")).toEqual([]);
});

test("what was kept is found by the installation's next key as well", async () => {
  const id = anyKey();
  const old = secretOf("old");
  const first = await createUnder("rotated", { id, secrets: [old] });
  const rotated = await createUnder("rotated", { id, secrets: [secretOf("new"), old] });
  expect(rotated).toEqual({ id: first.id, replayed: true });
});

test("only the verified caller it was kept for gets it", async () => {
  const id = anyKey();
  const mine = await createUnder("scoped", { id, caller: { id: "usr_a" } });
  const theirs = await createUnder("scoped", { id, caller: { id: "usr_b" } });
  expect(theirs).not.toEqual({ id: mine.id, replayed: true });
  expect(theirs.replayed).toBe(false);
  const forged = await fetch(
    `http://127.0.0.1:${server.port}/berth.identity.v1.AccountService/CreateAccount`,
    {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "berth-caller": "forged.header",
        [IDEMPOTENCY_HEADER]: idempotencyHeader(id, [secretOf("scoped")]),
      },
      body: JSON.stringify({ handle: "scoped" }),
    },
  );
  expect(forged.status).toBe(401);
});

test("the database alone shows nothing of an answer", async () => {
  const { id } = await createUnder("sealed", {});
  const { rows } = await pool.query<{ answer: Buffer }>("select answer from kept_answers");
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.map(({ answer }) => answer.toString("latin1")).join()).not.toContain(id);
});

test("a day later the key is another one", async () => {
  const id = anyKey();
  const first = await createUnder("daily", { id });
  await pool.query("update kept_answers set at = now() - interval '24 hours'");
  const next = await createUnder("daily", { id, secrets: [secretOf("another")] });
  expect(next.replayed).toBe(false);
  expect(await effectsOf("daily")).toEqual([first.id, next.id]);
});

test("however many answers are older than a day, one sweep after the other deletes them without a pause", async () => {
  await pool.query(
    `insert into kept_answers (id, request, at)
     select sha256(n::text::bytea), '', now() - interval '25 hours' from generate_series(1, 25000) n`,
  );
  const sweeping = sweepAnswers(pool, createLog("kit", "silent"));
  sweeping.wake();
  await eventually("none is left", async () => {
    const old = await pool.query("select from kept_answers where at < now() - interval '24 hours' limit 1");
    return old.rowCount === 0;
  });
  await sweeping.stop();
});

test("an answer without an effect is kept as well", async () => {
  const id = anyKey();
  const first = await createUnder("nothing", { id });
  expect(await createUnder("nothing", { id })).toEqual({ id: first.id, replayed: true });
});

test("a damaged header is no key", async () => {
  for (const header of ["", "a.b.c", idempotencyHeader(anyKey(), []), "x".repeat(5_000)]) {
    const client = clientAs(AccountService, server.port, {});
    const account = await client.createAccount(
      { handle: "damaged" },
      { headers: { [IDEMPOTENCY_HEADER]: header } },
    );
    expect(account.handle).toBe("damaged");
  }
});

test("a POST that answers without `effect`, or has two, fails with and without a key", async () => {
  const client = clientAs(AccountService, server.port, {});
  for (const handle of ["no-effect", "twice"]) {
    expect(await refused(client.createAccount({ handle }))).toBe("500 internal");
    expect(await refused(createUnder(handle, {}))).toBe("500 internal");
  }
});
