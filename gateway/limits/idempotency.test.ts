import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import { createPool } from "../../services/kit/postgres/db.ts";
import { invalid } from "../../services/kit/rpc/refusals.ts";
import { bringIn } from "../../test/support/door.ts";
import type { GatewayResponse } from "../http/response.ts";
import { anyName, apiClient, refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";
import { createIdempotency } from "./idempotency.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
let call: ReturnType<typeof apiClient>;
let A: string;
let db: pg.Client;
let made = 0;
/** Set while a test wants creations to wait: told when one waits, and ended by `release`. */
let held: { waiting: () => void; release: Promise<void> } | undefined;
let failing = false;
let refusing = false;

beforeAll(async () => {
  platform = await testPlatform({
    catalog: {
      createProject: async (request) => {
        if (request.name === "refused" || refusing) throw invalid("name", "invalid_name", "must be another");
        held?.waiting();
        await held?.release;
        if (failing) throw new Error("broken");
        made++;
        return { id: `prj_${made}`, name: request.name };
      },
    },
    variables: {
      createVariable: ({ name }) => ({ id: anyName("var_"), name }),
      revealVariable: () => ({ name: "X", value: "marker-of-a-revealed-value" }),
    },
    deployments: { createUpload: () => ({ archiveRef: anyName("arc_") }) },
  });
  gateway = await platform.gateway();
  call = gateway.call;
  const accounts = await call("GET", "/accounts");
  A = `/accounts/${(accounts.body.data as { id: string }[])[0]!.id}`;
  db = new pg.Client({ connectionString: platform.database.url("gateway") });
  await db.connect();
});

afterAll(async () => {
  await db.end();
  await platform.stop();
});

const post = (key: string, body: unknown, options: { token?: string; path?: string } = {}) =>
  call("POST", options.path ?? `${A}/projects`, body, {
    ...(options.token && { token: options.token }),
    headers: { "idempotency-key": key },
  });

function hold() {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const entered = new Promise<void>((resolve) => {
    held = { waiting: resolve, release: released };
  });
  return {
    entered,
    release: () => {
      held = undefined;
      release();
    },
  };
}

describe("the same key", () => {
  test("with the same request is answered once and replayed, status and body, on every gateway", async () => {
    const key = anyName("k");
    const before = made;
    const first = await post(key, { name: "one" });
    const again = await post(key, { name: "one" });
    const second = await platform.gateway();
    const elsewhere = await second.call(
      "POST",
      `${A}/projects`,
      { name: "one" },
      { headers: { "idempotency-key": key } },
    );
    expect([first.status, again.status, elsewhere.status]).toEqual([201, 201, 201]);
    expect([again.text, elsewhere.text]).toEqual([first.text, first.text]);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"));
    expect(made).toBe(before + 1);
  });

  test("with another body or path is refused", async () => {
    const key = anyName("k");
    await post(key, { name: "one" });
    expect(refusalOf(await post(key, { name: "two" }))).toBe("409 idempotency_key_reused");
    const elsewhere = await post(key, { name: "one" }, { path: `${A}/projects/prj_p/variables/X/reveal` });
    expect(refusalOf(elsewhere)).toBe("422 unknown_field");
    const other = await post(key, undefined, { path: `${A}/projects/prj_p/variables/X/reveal` });
    expect(refusalOf(other)).toBe("409 idempotency_key_reused");
  });

  test("of another caller is another key", async () => {
    const key = anyName("k");
    const { token } = await bringIn(call, A, "editor");
    const mine = await post(key, { name: "one" });
    const theirs = await post(key, { name: "one" }, { token });
    expect(theirs.body.id).not.toBe(mine.body.id);
  });

  test("by another token of the same user is replayed, and refused by one that may less", async () => {
    const key = anyName("k");
    const newToken = async (more = {}) =>
      String((await call("POST", "/me/tokens", { name: "t", ...more })).body.token);
    const [token, limited] = [await newToken(), await newToken({ roleCap: "editor" })];
    const first = await post(key, { name: "one" });
    const before = made;
    const again = await post(key, { name: "one" }, { token });
    expect([again.text, again.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
    expect(refusalOf(await post(key, { name: "one" }, { token: limited }))).toBe(
      "409 idempotency_key_reused",
    );
    expect(made).toBe(before);
  });

  test("while the first is under way is a conflict with Retry-After", async () => {
    const key = anyName("k");
    const gate = hold();
    const first = post(key, { name: "slow" });
    await gate.entered;
    const second = await post(key, { name: "slow" });
    gate.release();
    expect(refusalOf(second)).toBe("409 conflict");
    expect(second.headers.get("retry-after")).toBe("1");
    expect((await first).status).toBe(201);
    expect((await post(key, { name: "slow" })).headers.get("idempotent-replayed")).toBe("true");
  });
});

test("a refusal does not use the key up: the next request may be another", async () => {
  const key = anyName("k");
  expect(refusalOf(await post(key, { name: "refused" }))).toBe("422 invalid_name");
  const again = await post(key, { name: "refused" });
  expect(refusalOf(again)).toBe("422 invalid_name");
  expect(again.headers.get("idempotent-replayed")).toBeNull();
  expect((await post(key, { name: "better" })).status).toBe(201);
});

test("where the outcome is not known the key stays with its request, which may be made again at once", async () => {
  const key = anyName("k");
  failing = true;
  expect((await post(key, { name: "x" })).status).toBe(500);
  expect(refusalOf(await post(key, { name: "y" }))).toBe("409 idempotency_key_reused");
  expect((await post(key, { name: "x" })).status).toBe(500);
  failing = false;
  expect((await post(key, { name: "x" })).status).toBe(201);
  expect((await post(key, { name: "x" })).headers.get("idempotent-replayed")).toBe("true");
});

test("a refusal after an attempt whose outcome is not known does not free the key for another request", async () => {
  const key = anyName("k");
  failing = true;
  await post(key, { name: "refused-later" });
  failing = false;
  refusing = true;
  expect(refusalOf(await post(key, { name: "refused-later" }))).toBe("422 invalid_name");
  refusing = false;
  expect(refusalOf(await post(key, { name: "another" }))).toBe("409 idempotency_key_reused");
  expect((await post(key, { name: "refused-later" })).status).toBe(201);
});

test("requests are the same when their bodies say the same as JSON", async () => {
  const key = anyName("k");
  const path = `${A}/projects/prj_p/variables`;
  const first = await post(key, '{"name":"A","connection":{"service":"db","key":"URL"}}', { path });
  expect(first.status).toBe(200);
  const again = await post(key, ' { "connection": {"key":"\\u0055RL", "service":"db"},\n"name" : "A" } ', {
    path,
  });
  expect([again.text, again.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
  const other = await post(key, '{"name":"A","connection":{"service":"URL","key":"db"}}', { path });
  expect(refusalOf(other)).toBe("409 idempotency_key_reused");
  const upload = `${A}/projects/prj_p/environments/env_e/services/s/uploads`;
  const [empty, object] = [anyName("k"), "{}"];
  expect((await post(empty, undefined, { path: upload })).status).toBe(200);
  expect((await post(empty, object, { path: upload })).headers.get("idempotent-replayed")).toBe("true");
});

test("a key that an older gateway took is compared by the bytes of its request", async () => {
  const key = anyName("k");
  const first = await post(key, { name: "one" });
  await db.query("update idempotency_keys set request_json = null");
  expect((await post(key, { name: "one" })).text).toBe(first.text);
  expect(refusalOf(await post(key, ' {"name":"one"}'))).toBe("409 idempotency_key_reused");
});

test("a key is 1 to 255 visible characters", async () => {
  for (const key of ["", "a b", "x".repeat(256)])
    expect(refusalOf(await post(key, { name: "x" }))).toBe("422 invalid_key");
  expect((await post("x".repeat(255), { name: "x" })).status).toBe(201);
});

test("a request without the right to make it takes no key", async () => {
  const key = anyName("k");
  const headers = { "idempotency-key": key };
  await call("POST", "/accounts/acc_other/projects", { name: "x" }, { headers });
  expect((await post(key, { name: "x" })).status).toBe(201);
});

test("what is stored shows neither answers nor bodies", async () => {
  await post(anyName("k"), { name: "marker-of-a-body" });
  await post(anyName("k"), undefined, { path: `${A}/projects/prj_p/variables/X/reveal` });
  const token = await post(anyName("k"), { name: "t" }, { path: "/me/tokens" });
  const { rows } = await db.query("select * from idempotency_keys");
  expect(rows.length).toBeGreaterThan(2);
  const text = rows
    .flatMap((row) => Object.values(row as object))
    .map((cell) => (Buffer.isBuffer(cell) ? cell.toString("latin1") : JSON.stringify(cell)))
    .join("\n");
  for (const secret of ["marker-of-a-body", "marker-of-a-revealed-value", String(token.body.token)])
    expect(text).not.toContain(secret);
});

test("a request whose gateway was killed can be made again when its lease ends, and not before", async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../main.ts")], {
    env: { ...process.env, ...platform.gatewayEnv, PORT: "0", LOG_LEVEL: "info", NODE_OPTIONS: "" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const { baseUrl } = JSON.parse(line.toString().split("\n")[0]!) as { baseUrl: string };
  const key = anyName("k");
  const gate = hold();
  const headers = { "idempotency-key": key };
  const lost = apiClient(baseUrl, platform.ownerToken)(
    "POST",
    `${A}/projects`,
    { name: "lost" },
    { headers },
  ).catch(() => undefined);
  await gate.entered;
  child.kill("SIGKILL");
  await lost;
  gate.release();
  expect(refusalOf(await post(key, { name: "lost" }))).toBe("409 conflict");
  const { rows } = await db.query<{ left: number }>(
    "select extract(epoch from max(lease_until) - now())::float8 as left from idempotency_keys where status is null",
  );
  expect(rows[0]!.left).toBeGreaterThan(0);
  expect(rows[0]!.left).toBeLessThanOrEqual(60);
  await db.query("update idempotency_keys set lease_until = now() where status is null");
  expect(refusalOf(await post(key, { name: "another" }))).toBe("409 idempotency_key_reused");
  expect((await post(key, { name: "lost" })).status).toBe(201);
  expect((await post(key, { name: "lost" })).headers.get("idempotent-replayed")).toBe("true");
});

test("a day later the key is another one", async () => {
  const key = anyName("k");
  const first = await post(key, { name: "one" });
  await db.query("update idempotency_keys set expires_at = now()");
  const next = await post(key, { name: "two" });
  expect(next.body.id).not.toBe(first.body.id);
});

test("an answer that an earlier version kept is given again", async () => {
  const stored = (text: string) => Buffer.from(text, "base64");
  const pool = createPool(platform.database.url("gateway"));
  await pool.query(
    `insert into idempotency_keys (id, request, request_json, holder, lease_until, expires_at, status, answer)
     values ($1, $2, $3, 'run_1', now(), now() + interval '1 day', 201, $4)`,
    [
      stored("ti/l0EpsgzIzwyEJgoSpLlSafyDN8ikcFyiSwxRAMjo="),
      stored("MnS+T0SDB6IgSNnGVuJWz3l+0AlEbxA2ORdNR++o/B0="),
      stored("PWwjc/BibC6mKYGQ9kbhOZIpBKHCkXAq3RpPAfLcDUI="),
      stored(
        "qm3kj9GbD48xyp+O4H4NqYLiTQOjkqc6FebyfKo71oi8MJDooxmYmXteI3NhA6+9YlpDZzcf9mITUijxvhsevW4afHZXCquyWg==",
      ),
    ],
  );
  const idempotency = createIdempotency({
    pool,
    keys: [Buffer.alloc(32, 7)],
    log: createLog("test", "silent"),
  });
  const caller = { owner: "usr_1\n", secret: "user usr_1 - -", formerSecret: "berth_pat_sample" };
  const body = Buffer.from('{"name":"one"}');
  const request = { key: "k", method: "POST", url: "/v1/x", body };
  const answer = await idempotency.run({ ...request, ...caller }, () =>
    Promise.reject(new Error("made again")),
  );
  expect(answer).toMatchObject({ status: 201, etag: '"1"', replayed: true });
  expect(String((answer as GatewayResponse).body)).toBe('{"id":"prj_1"}');

  // Beside a gateway that knows keys by the token alone: one of the two performs a request, and both answer it.
  const { formerSecret, ...now } = caller;
  const former = { owner: caller.owner, secret: formerSecret };
  const done = { status: 201, body: Buffer.from("{}") };
  const lost = async () => ({ status: 503, body: undefined, retryAfter: 1 });
  const run = async (by: Omit<typeof caller, "formerSecret">, key: string, work = async () => done) =>
    (await idempotency.run(
      { ...request, ...by, key },
      work as () => Promise<GatewayResponse>,
    )) as GatewayResponse;
  const never = () => Promise.reject(new Error("made again"));
  const [ours, theirs, half] = [anyName("k"), anyName("k"), anyName("k")];
  await run(caller, ours);
  expect(await run(former, ours, never)).toMatchObject({ status: 409, code: "idempotency_key_reused" });
  await run(former, theirs);
  expect(await run(caller, theirs, never)).toMatchObject({ status: 201, replayed: true });
  expect(await run(now, theirs, never)).toMatchObject({ status: 409 });
  await idempotency.run({ ...request, ...former, key: half }, lost);
  expect(await run(caller, half)).toMatchObject({ status: 201 });
  for (const by of [former, caller])
    expect(await run(by, half, never)).toMatchObject({ status: 201, replayed: true });
  await pool.end();
});
