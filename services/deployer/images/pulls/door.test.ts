import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { A, B, basic, DIGEST, startDoor, type TestDoor } from "./testing.ts";

type Key = TestDoor["keys"][number];

let door: TestDoor;
beforeAll(async () => {
  door = await startDoor();
});
afterAll(() => door.close());

/** Returns the status, and whether the registry was asked. */
async function outcome(asking: () => Promise<{ status?: number; text: string }>): Promise<string> {
  const before = door.asked.length;
  const { status, text } = await asking();
  const code = /"code":"(\w+)"/.exec(text)?.[1];
  return [status, ...(code ? [code] : []), ...(door.asked.length > before ? ["passed"] : [])].join(" ");
}

const shared = [`/v2/apps/manifests/${DIGEST}`, "/v2/apps/manifests/bld_1", `/v2/apps/blobs/${DIGEST}`];
const own = shared.map((path) => path.replace("/apps/", `/apps/${A}/`));
const ofOther = own.map((path) => path.replace(A, B));

describe("a login", () => {
  test.each([...shared, ...own])("of an account pulls %s", async (path) => {
    expect(await outcome(() => door.ask(path, A))).toBe("200 passed");
    expect(await outcome(() => door.ask(`${path}?ns=localhost%3A30500`, A, { method: "HEAD" }))).toBe(
      "200 passed",
    );
    expect(door.asked.slice(-2).map(({ method, url }) => `${method} ${url}`)).toEqual([
      `GET ${path}`,
      `HEAD ${path}`,
    ]);
  });

  test.each(ofOther)("of an account does not pull %s", async (path) => {
    expect(await outcome(() => door.ask(path, A))).toBe("403 DENIED");
  });

  test("of before accounts had their own pulls what was pushed then, and nothing else", async () => {
    for (const path of shared) expect(await outcome(() => door.ask(path, "nodes"))).toBe("200 passed");
    for (const path of own) expect(await outcome(() => door.ask(path, "nodes"))).toBe("403 DENIED");
  });

  test("is required, and nothing of it reaches the registry", async () => {
    for (const path of ["/v2/", "/v2", own[0]!, "/v2/_catalog", "/"]) {
      const { status, headers, text } = await door.ask(path);
      expect([status, headers["www-authenticate"]]).toEqual([401, 'Basic realm="berth"']);
      expect(JSON.parse(text).errors).toEqual([expect.objectContaining({ code: "UNAUTHORIZED" })]);
    }
    const version = await door.ask("/v2/", A);
    expect([version.status, version.headers["docker-distribution-api-version"]]).toEqual([
      200,
      "registry/2.0",
    ]);
    await door.ask(own[0]!, A, { accept: "application/x", cookie: "x=1", "x-forwarded-for": "1.2.3.4" });
    const { host, connection, ...headers } = door.asked.at(-1)!.headers;
    expect(headers).toEqual({ accept: "application/x" });
  });

  test("is taken under every key that there is, made with the first, and with no other", async () => {
    const [first, second] = door.keys as [Key, Key];
    const by = (keys: Key[]) => ({ authorization: door.loginOf(A, keys) });
    expect(door.loginOf(A)).toBe(door.loginOf(A, [first]));
    for (const key of [first, second])
      expect(await outcome(() => door.ask(own[0]!, undefined, by([key])))).toBe("200 passed");
    expect(await outcome(() => door.ask(own[0]!, undefined, by([randomBytes(32)])))).toBe("401 UNAUTHORIZED");
  });

  test("that is malformed, or of another user, opens nothing", async () => {
    const password = Buffer.from(door.loginOf(A).slice(6), "base64").toString().slice(`${A}:`.length);
    const nodes = Buffer.from(door.loginOf("nodes").slice(6), "base64").toString().slice("nodes:".length);
    for (const authorization of [
      ...["", "Basic", "Basic ", "Basic :", "Basic ====", `Bearer ${password}`, password],
      ...[basic(A, ""), basic("", password), basic(A, `${password} `), basic(A, password.slice(1))],
      ...[basic(B, password), basic(`${A}:`, password), basic("ACC_1", password), basic(`${A}\n`, password)],
      ...[basic("nodes", password), basic(A, nodes), basic("berth", nodes), basic("nodes", "")],
      ...[basic("__proto__", password), basic("acc_", password), `${door.loginOf(A)}, ${door.loginOf(A)}`],
    ])
      expect([authorization, await outcome(() => door.ask(own[0]!, undefined, { authorization }))]).toEqual([
        authorization,
        "401 UNAUTHORIZED",
      ]);
  });
});

describe("nothing but a pull passes", () => {
  const repository = `/v2/apps/${A}`;
  test.each([
    ...["/v2/_catalog", "/v2/_catalog?n=1000", "/v2/apps/tags/list", `${repository}/tags/list`],
    ...[`${repository}/blobs/uploads/`, `${repository}/referrers/${DIGEST}`, "/", "/debug/vars", "/metrics"],
    ...["/v2/cache/manifests/svc_1", `/v2/cache/blobs/${DIGEST}`, "/v2/node/manifests/1"],
    ...[`${repository}/../${B}/manifests/${DIGEST}`, `${repository}/./manifests/${DIGEST}`],
    ...[`${repository}/manifests/..`, `${repository}/manifests/../../${B}/manifests/${DIGEST}`],
    ...[`${repository}/%2e%2e/${B}/manifests/${DIGEST}`, `/v2/apps%2f${B}/manifests/${DIGEST}`],
    ...[`${repository}/manifests/..%2f..%2f${B}%2fmanifests%2f${DIGEST}`, `/v2/%61pps/blobs/${DIGEST}`],
    ...[`//v2/apps/${B}/blobs/${DIGEST}`, `/v2//apps/blobs/${DIGEST}`, `/v2/apps//blobs/${DIGEST}`],
    ...[
      `/v2/apps/${A}/${B}/blobs/${DIGEST}`,
      `/v2/apps/x/../${B}/blobs/${DIGEST}`,
      `/v2/x/apps/blobs/${DIGEST}`,
    ],
    ...[`http://127.0.0.1/v2/apps/${B}/blobs/${DIGEST}`, `http://x/v2/apps/blobs/${DIGEST}`, "*"],
    ...[
      `/v2/apps/${A};/blobs/${DIGEST}`,
      `/v2/apps\\${B}\\blobs\\${DIGEST}`,
      `/v2/apps/${A}#/blobs/${DIGEST}`,
    ],
    ...[`/v2/apps/ACC_1/blobs/${DIGEST}`, `/v2/apps/acc_/blobs/${DIGEST}`, `/v3/apps/blobs/${DIGEST}`],
    ...[`${repository}/blobs/${DIGEST}/`, `${repository}/blobs/${DIGEST}0`, `${repository}/blobs/sha512:aa`],
    ...[
      `${repository}/manifests/${"t".repeat(129)}`,
      `${repository}/manifests/`,
      `${repository}/manifests/:`,
    ],
    ...[`${repository}/blobs/${DIGEST}%00`, `${repository}/blobs/${DIGEST}%0d%0aX:%20y`],
  ])("not %s", async (path) => {
    expect(await outcome(() => door.ask(path, A))).toBe("404 NAME_UNKNOWN");
  });

  test.each(["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])("not %s", async (method) => {
    const answer = await door.ask(own[0]!, A, { method });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD"]);
  });

  test("a query names nothing", async () => {
    for (const query of [`?/../${B}`, `?ns=${B}&from=${B}`, "?", "??", `?mount=${DIGEST}&from=apps/${B}`]) {
      expect(await outcome(() => door.ask(`${own[0]}${query}`, A))).toBe("200 passed");
      expect(door.asked.at(-1)!.url).toBe(own[0]);
    }
  });

  test.each([
    ["a length and chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"],
    ["chunks", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"],
    ["disguised chunks", "Transfer-Encoding: x, chunked\r\n", "0\r\n\r\n"],
    ["a body", "Content-Length: 40\r\n", ""],
    ["two lengths", "Content-Length: 0\r\nContent-Length: 40\r\n", ""],
    ["a folded header", "X: 1\r\n Content-Length: 40\r\n", ""],
    ["a header without a name", ": 1\r\n", ""],
    ["a bare line feed", "X: 1\nTransfer-Encoding: chunked\r\n", ""],
    ["a header beyond 8 KiB", `X: ${"x".repeat(9_000)}\r\n`, ""],
  ])("a request inside another is none: %s", async (_, header, before) => {
    const login = `Authorization: ${door.loginOf(A)}\r\n`;
    const inner = `GET ${own[0]} HTTP/1.1\r\nHost: x\r\n${login}\r\n`;
    const reached = door.asked.length;
    const answer = await door.send(
      `GET ${own[0]} HTTP/1.1\r\nHost: x\r\n${login}${header}\r\n${before}${inner}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(door.asked).toHaveLength(reached);
  });

  test.each(["CONNECT x:1", "GARBAGE", `GET ${own[0]}`])("%s opens no tunnel", async (line) => {
    const answer = await door.send(
      `${line} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n`,
    );
    expect(answer).not.toMatch(/HTTP\/1\.1 (?:101|200)/);
  });
});

test("its health needs no login, and readiness says whether the registry answers", async () => {
  const other = await startDoor();
  const status = async (path: string) => (await other.ask(path)).status;
  expect([await status("/healthz"), await status("/readyz")]).toEqual([200, 200]);
  await other.endRegistry();
  expect([await status("/healthz"), await status("/readyz")]).toEqual([200, 503]);
  await other.close();
});
