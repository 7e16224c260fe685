import { generateKeyPairSync, randomUUID } from "node:crypto";
import { decodeJwt, importJWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from "jose";
import { Pool } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool } from "../../services/kit/postgres/db.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { bringIn } from "../../test/support/door.ts";
import { openEvents } from "../../test/support/events.ts";
import { type App, connectApp } from "../../test/support/oauth/application.ts";
import { type SigningKey, signingKeyOf } from "../../test/support/signing-key.ts";
import { anyName, apiClient, refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let origin: string;
let one: Awaited<ReturnType<TestPlatform["gateway"]>>;
let other: typeof one;
let accountId: string;
let A: string;
let editor: App;
let signingKey: SigningKey;
let made = 0;

beforeAll(async () => {
  const port = await freePort();
  origin = `http://127.0.0.1:${port}`;
  platform = await testPlatform(
    {
      catalog: { listProjects: () => ({}), createProject: () => ({ id: `prj_${++made}` }) },
      deployments: {
        async *followLogs(_, ctx) {
          yield {};
          await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
        },
      },
    },
    origin,
  );
  one = await platform.gateway({ PORT: String(port), PUBLIC_ORIGIN: origin });
  other = await replica();
  const accounts = await one.call("GET", "/accounts");
  accountId = (accounts.body.data as { id: string }[])[0]!.id;
  A = `/accounts/${accountId}`;
  editor = await connectApp({ origin, call: one.call }, { accountId, role: "editor" });
  signingKey = await signingKeyOf(platform.database.url("identity"));
});

afterAll(() => platform.stop());

/** Starts another gateway of the same origin, and reaches it by its own address. */
async function replica(extra: Record<string, string> = {}) {
  const gateway = await platform.gateway({ PUBLIC_ORIGIN: origin, ...extra });
  const baseUrl = `http://127.0.0.1:${gateway.port}/v1`;
  return { ...gateway, baseUrl, call: apiClient(baseUrl, platform.ownerToken) };
}

/** Lets an application into the account, as a new member of this role. */
async function appOf(membership: "reader" | "editor" | "owner", role: "reader" | "editor") {
  const user = await bringIn(one.call, A, membership);
  const app = await connectApp({ origin, call: one.call }, { token: user.token, accountId, role });
  return { user, app };
}

const get = (path: string, token: string, at = one) => at.call("GET", path, undefined, { token });
const statusOf = async (token: string, at = one) => (await get(`${A}/projects`, token, at)).status;
const refusedAt = (gateway: typeof one, token: string) =>
  eventually("the gateway refuses the token", async () => (await statusOf(token, gateway)) === 401);

/** How often gateways asked identity about a machine token. */
async function lookups(): Promise<number> {
  const text = await (await fetch(`${platform.gatewayEnv.IDENTITY_URL}/metrics`)).text();
  const counts = text.matchAll(/_count\{[^}]*InternalService\/LookupMachine[^}]*\} (\d+)/g);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Signs what a real access token says, with changes, with the installation's key unless another is given. */
async function forged(
  change: { claims?: JWTPayload; header?: Partial<JWTHeaderParameters>; key?: Uint8Array | SigningKey } = {},
) {
  const header = { alg: "ES256", typ: "at+jwt", kid: signingKey.kid, ...change.header };
  const key = change.key ?? signingKey;
  const jwt = new SignJWT({ ...decodeJwt(editor.accessToken), ...change.claims }).setProtectedHeader(header);
  return jwt.sign(key instanceof Uint8Array ? key : await importJWK(key, header.alg));
}

const seconds = () => Math.floor(Date.now() / 1000);
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

describe("a machine token", () => {
  test("that the installation signed is let in, and one that differs in any claim or in its signature is not", async () => {
    expect(await statusOf(await forged())).toBe(200);
    const claims = decodeJwt(editor.accessToken);
    const [header, body, signature] = editor.accessToken.split(".") as [string, string, string];
    const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
    const { d: _, ...publicKey } = signingKey;
    const asSecret = Buffer.from(JSON.stringify(publicKey));
    const tokens = {
      "another's signature": await forged({ key: { ...stranger, kid: signingKey.kid } as SigningKey }),
      "a tampered role": `${header}.${part({ ...claims, role: "owner" })}.${signature}`,
      "a tampered grant": `${header}.${part({ ...claims, grant_id: "grt_1" })}.${signature}`,
      "no signature": `${part({ alg: "none", typ: "at+jwt" })}.${body}.${signature}`,
      "alg none behind the real key id": `${part({ alg: "none", typ: "at+jwt", kid: signingKey.kid })}.${body}.e30`,
      "HS256 with the public key as the secret": await forged({ header: { alg: "HS256" }, key: asSecret }),
      "another audience": await forged({ claims: { aud: "https://elsewhere.example/v1" } }),
      "the origin as audience": await forged({ claims: { aud: origin } }),
      "another issuer": await forged({ claims: { iss: "https://elsewhere.example" } }),
      "the type of an ID token": await forged({ header: { typ: "JWT" } }),
      "no type": await forged({ header: { typ: undefined } }),
      "an expiry that is over": await forged({ claims: { exp: seconds() } }),
      "no expiry": await forged({ claims: { exp: undefined } }),
      "an expiry that is no number": await forged({ claims: { exp: "never" as never } }),
      "a beginning to come": await forged({ claims: { nbf: seconds() + 60 } }),
      "a grant that there is not": await forged({ claims: { grant_id: "grt_nobody" } }),
      "no grant": await forged({ claims: { grant_id: undefined } }),
      "a key id that there is not": await forged({ header: { kid: "key_nobody" } }),
      "a critical extension": await forged({ header: { crit: ["exp"], exp: 1 } as never }).catch(
        () => "x.y.z",
      ),
      "parts that are no JSON": `${header}.e30x.${signature}`,
      "a header that is null": `${Buffer.from("null").toString("base64url")}.${body}.${signature}`,
      "an opaque token of another provider": "ory_at_abcdefghijklmnop.qrstuvwxyz",
    };
    const answers = await Promise.all(
      Object.entries(tokens).map(async ([name, token]) => [
        name,
        refusalOf(await get(`${A}/projects`, token)),
      ]),
    );
    for (const [name, answer] of answers) expect(answer, name).toBe("401 unauthenticated");
  });

  test("is at most 4 KiB long", async () => {
    const padded = async (length: number) => {
      const bare = (await forged({ claims: { pad: "" } })).length;
      return forged({ claims: { pad: "x".repeat(Math.floor(((length - bare) * 3) / 4)) } });
    };
    expect(await statusOf(await padded(4_080))).toBe(200);
    expect(await statusOf(await padded(4_120))).toBe(401);
  });

  test("is answered without a question to identity per request", async () => {
    const { app } = await appOf("editor", "editor");
    await statusOf(app.accessToken);
    const [before, began] = [await lookups(), Date.now()];
    const answers = await Promise.all(Array.from({ length: 200 }, () => statusOf(app.accessToken)));
    expect(new Set(answers)).toEqual(new Set([200]));
    // One each time that its 5 s in the cache ended meanwhile.
    const ended = Math.ceil((Date.now() - began) / 5_000);
    expect((await lookups()) - before).toBeLessThanOrEqual(ended);
  });

  test("that cannot be genuine is refused without a question to identity, and displaces nobody from the cache", async () => {
    const { app } = await appOf("editor", "editor");
    await statusOf(app.accessToken);
    const before = await lookups();
    const expired = await forged({ claims: { exp: seconds() - 1 } });
    const elsewhere = await forged({ claims: { iss: "https://elsewhere.example" } });
    const door = new Pool(origin, { connections: 10, pipelining: 10 });
    const answered = async (token: string) => {
      const headers = { authorization: `Bearer ${token.slice(0, token.lastIndexOf("."))}.${randomUUID()}` };
      const { statusCode, body } = await door.request({ method: "GET", path: `/v1${A}/projects`, headers });
      await body.dump();
      return statusCode;
    };
    for (let sent = 0; sent < 10_000; sent += 100) {
      const tokens = Array.from({ length: 50 }, () => [expired, elsewhere]).flat();
      expect(new Set(await Promise.all(tokens.map(answered)))).toEqual(new Set([401]));
    }
    await door.close();
    expect(await lookups()).toBe(before);
  });

  test("ends at its second, although the gateway knows it", async () => {
    const exp = seconds() + 2;
    const token = await forged({ claims: { exp } });
    let answered: number;
    do {
      const sentAt = Date.now();
      answered = await statusOf(token);
      if (Date.now() < exp * 1000) expect(answered).toBe(200);
      if (sentAt >= exp * 1000) expect(answered).toBe(401);
    } while (answered !== 401);
    expect(Date.now()).toBeGreaterThanOrEqual(exp * 1000);
  });

  test("reaches the account of its grant only, although its user has others", async () => {
    const second = await one.call("POST", "/accounts", { handle: anyName("h") });
    const elsewhere = `/accounts/${second.body.id}`;
    expect(refusalOf(await get(`${elsewhere}/projects`, editor.accessToken))).toBe("403 forbidden");
    expect(refusalOf(await get("/accounts/acc_nowhere/projects", editor.accessToken))).toBe("403 forbidden");
    const listed = await get("/accounts", editor.accessToken);
    expect(listed.body.data).toMatchObject([{ id: accountId, myRole: "editor" }]);
  });
});

describe("what a user takes away", () => {
  test("by ending the grant is refused by every gateway, in the API and at the token endpoint", async () => {
    const { user, app } = await appOf("editor", "editor");
    expect([await statusOf(app.accessToken), await statusOf(app.accessToken, other)]).toEqual([200, 200]);
    const path = `/me/mcp-grants/${app.clientId}`;
    expect((await one.call("DELETE", path, undefined, { token: user.token })).status).toBe(204);
    expect(await statusOf(app.accessToken)).toBe(401);
    await refusedAt(other, app.accessToken);
    expect(await app.refused()).toBe("400 invalid_grant");
  });

  test("by the application, which gives its token back, is refused by every gateway", async () => {
    const { app } = await appOf("editor", "reader");
    const { accessToken } = await app.refresh();
    expect([await statusOf(accessToken), await statusOf(accessToken, other)]).toEqual([200, 200]);
    expect((await app.revoke()).status).toBe(200);
    for (const gateway of [one, other])
      for (const token of [app.accessToken, accessToken]) await refusedAt(gateway, token);
  });

  test("as a role or membership takes it from the machine too, and the role comes back with the user's", async () => {
    const { user, app } = await appOf("editor", "editor");
    const write = async (at: typeof one) => {
      const token = app.accessToken;
      return (await at.call("POST", `${A}/projects`, { name: "x" }, { token })).status;
    };
    const member = `${A}/members/${user.userId}`;
    expect([await write(one), await write(other)]).toEqual([201, 201]);
    await one.call("PATCH", member, { role: "reader" });
    expect([await write(one), await statusOf(app.accessToken)]).toEqual([403, 200]);
    await eventually("the other gateway knows", async () => (await write(other)) === 403);
    await one.call("PATCH", member, { role: "owner" });
    expect([await write(one), await write(other)]).toEqual([201, 201]);
    expect(refusalOf(await get(`${A}/audit-events`, app.accessToken))).toBe("403 forbidden");
    await one.call("DELETE", member);
    expect(refusalOf(await get(`${A}/projects`, app.accessToken))).toBe("403 forbidden");
    expect((await get("/accounts", app.accessToken)).body.data).toEqual([]);
    await eventually("the other gateway knows", async () => (await write(other)) === 403);
  });

  test("by proving that an e-mail is theirs, from whoever used it before, is refused", async () => {
    const { user, app } = await appOf("editor", "editor");
    const pool = createPool(platform.database.url("identity"), { max: 1 });
    // As an older version made users in advance.
    await pool.query("update users set email_verified_at = null where id = $1", [user.userId]);
    await pool.end();
    const second = await one.call("POST", "/accounts", { handle: anyName("h") });
    const body = { email: user.email, role: "reader" };
    const invited = await one.call("POST", `/accounts/${second.body.id}/members`, body);
    const token = new URL(String(invited.body.link)).hash.slice(1);
    const join = { token, password: "a password of their own" };
    expect((await one.call("POST", "/invitations/join", join, { token: "" })).status).toBe(201);
    for (const gateway of [one, other]) await refusedAt(gateway, app.accessToken);
    expect(await app.refused()).toBe("400 invalid_grant");
  });

  test("ends the streams that the machine follows", async () => {
    const { user, app } = await appOf("editor", "reader");
    const S = `${A}/projects/prj_1/environments/env_1/services/web`;
    const stream = await openEvents(`${other.baseUrl}${S}/logs`, { token: app.accessToken });
    await one.call("DELETE", `/me/mcp-grants/${app.clientId}`, undefined, { token: user.token });
    const event = await stream.until("the stream says why it ends", ({ event }) => event === "problem");
    expect(event).toMatchObject({ data: { error: { code: "unauthenticated" } } });
  });
});

describe("a refreshed token", () => {
  test("repeats a request under the same Idempotency-Key, once and for all", async () => {
    const { app } = await appOf("editor", "editor");
    const { accessToken } = await app.refresh();
    const create = (token: string, name: string) =>
      one.call("POST", `${A}/projects`, { name }, { token, headers: { "idempotency-key": app.clientId } });
    const first = await create(app.accessToken, "one");
    const before = made;
    const again = await create(accessToken, "one");
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(refusalOf(await create(accessToken, "two"))).toBe("409 idempotency_key_reused");
    expect(made).toBe(before);
  });

  test("has the rate limit of its user, as all applications that the user connected", async () => {
    const limited = await replica({ RATE_LIMITS: "on", RATE_LIMIT_READS: "3" });
    const { user, app } = await appOf("editor", "reader");
    const second = await connectApp(
      { origin, call: one.call },
      { token: user.token, accountId, role: "reader" },
    );
    // A minute may end between two requests.
    await eventually("the other one and the user are over the limit that one reached", async () => {
      while ((await statusOf(app.accessToken, limited)) !== 429);
      const others = [await statusOf(second.accessToken, limited), await statusOf(user.token, limited)];
      return others.every((status) => status === 429);
    });
    await limited.stop();
  });
});
