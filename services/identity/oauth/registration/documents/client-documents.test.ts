import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { OauthService } from "../../../../../proto/gen/berth/identity/v1/oauth_pb.ts";
import { clientAs } from "../../../../kit/testing/testing.ts";
import { startIdentity, type TestIdentity } from "../../../testing.ts";
import { isDocumentUrl } from "./client-documents.ts";
import type { Fetched } from "./fetch-document.ts";

const MINUTE = 60_000;
const REDIRECT = "http://127.0.0.1:7777/callback";
const VERIFIER = "v".repeat(43);
let it: TestIdentity;

/** The web: what the hosts of documents answer. */
const web = new Map<string, Partial<Fetched> | Error>();
const fetched: string[] = [];

beforeAll(async () => {
  it = await startIdentity({}, async (url) => {
    fetched.push(url.href);
    const found = web.get(url.href) ?? { status: 404 };
    if (found instanceof Error) throw found;
    return { status: 200, body: Buffer.alloc(0), maxAgeSeconds: undefined, ...found };
  });
});
afterAll(() => it.stop());
beforeEach(() => {
  fetched.length = 0;
});

let published = 0;

/** Publishes a document and returns the id of its client. */
function publish(more: Record<string, unknown> = {}, maxAgeSeconds?: number): string {
  const id = `https://apps.berth-tests.dev/${++published}/client.json`;
  const document = { client_id: id, redirect_uris: ["http://127.0.0.1/callback"], ...more };
  web.set(id, { body: Buffer.from(JSON.stringify(document)), maxAgeSeconds });
  return id;
}

/** A browser that begins an authorization, and goes on where it is sent. */
function browser(identity: TestIdentity = it) {
  const cookies = new Map<string, string>();
  async function go(path: string): Promise<URL> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(`http://127.0.0.1:${identity.port}${path}`, {
      redirect: "manual",
      headers: cookie ? { cookie } : {},
    });
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
      cookies.set(name!, value!);
    }
    return new URL(answer.headers.get("location")!);
  }
  return {
    begin: (clientId: string, redirectUri = REDIRECT) =>
      go(
        `/oauth2/auth?${new URLSearchParams({
          client_id: clientId,
          response_type: "code",
          redirect_uri: redirectUri,
          code_challenge: createHash("sha256").update(VERIFIER).digest("base64url"),
          code_challenge_method: "S256",
          state: "s",
        })}`,
      ),
    goOn: (url: string) => go(new URL(url).pathname + new URL(url).search),
  };
}

/** Where the provider sends a client: a page of ours, or the error that it shows. */
async function begin(clientId: string, redirectUri?: string, identity?: TestIdentity): Promise<string> {
  const { pathname, searchParams } = await browser(identity).begin(clientId, redirectUri);
  const error = searchParams.get("error");
  return error === null ? pathname : `${error} ${searchParams.get("error_description")}`;
}

const LOGIN = "/oauth/login";

async function owner() {
  return clientAs(OauthService, it.port, (await it.as(it.ownerToken)).caller);
}

/** The first owner lets the client in; returns its tokens, and what the owner was shown. */
async function letIn(clientId: string) {
  const oauth = await owner();
  const at = browser();
  const loginChallenge = (await at.begin(clientId)).searchParams.get("login_challenge")!;
  const { redirectTo } = await oauth.completeLogin({ loginChallenge });
  const consentChallenge = (await at.goOn(redirectTo)).searchParams.get("consent_challenge")!;
  const view = await oauth.getConsentRequest({ challenge: consentChallenge });
  const { accountId } = it;
  const accepted = await oauth.completeConsent({ consentChallenge, accountId, role: "reader" });
  const code = (await at.goOn(accepted.redirectTo)).searchParams.get("code")!;
  const exchange = {
    grant_type: "authorization_code",
    code,
    redirect_uri: REDIRECT,
    code_verifier: VERIFIER,
  };
  return { client: view.client!, tokens: await token(clientId, exchange) };
}

async function token(clientId: string, asked: Record<string, string>): Promise<Record<string, string>> {
  const body = new URLSearchParams({ client_id: clientId, ...asked });
  return (await fetch(`http://127.0.0.1:${it.port}/oauth2/token`, { method: "POST", body })).json() as never;
}

test("a client described by a document can be authorized, is shown with the document's host, and listed", async () => {
  const id = publish({ client_name: "Documented" });
  const { client, tokens } = await letIn(id);
  expect(client).toMatchObject({
    clientId: id,
    clientName: "Documented",
    documentHost: "apps.berth-tests.dev",
    redirectHost: "127.0.0.1:7777",
  });
  expect(tokens.access_token).toBeDefined();
  const { data } = await (await owner()).listMcpGrants({});
  expect(data).toMatchObject([{ clientId: id, clientName: "Documented", role: "reader" }]);
  await (await owner()).revokeMcpGrants({ clientId: id });
  const again = { grant_type: "refresh_token", refresh_token: tokens.refresh_token! };
  expect(await token(id, again)).toMatchObject({ error: "invalid_grant" });
});

test("a client without a name is named by the URL of its document", async () => {
  const id = publish();
  await letIn(id);
  const { data } = await (await owner()).listMcpGrants({});
  expect(data.find(({ clientId }) => clientId === id)).toMatchObject({ clientName: id });
});

test("a document is cached for its max-age, from a minute to a day, or else five minutes", async () => {
  for (const [said, minutes] of [
    [undefined, 5],
    [0, 1],
    [600, 10],
    [10 ** 9, 24 * 60],
  ] as const) {
    const id = publish({}, said);
    const times = () => fetched.filter((url) => url === id).length;
    expect(await begin(id)).toBe(LOGIN);
    it.clock.ms += minutes * MINUTE - 1;
    expect(await begin(id)).toBe(LOGIN);
    expect(times()).toBe(1);
    it.clock.ms += 1;
    expect(await begin(id)).toBe(LOGIN);
    expect(times()).toBe(2);
  }
});

test("requests at the same time share one fetch", async () => {
  const id = publish();
  const all = await Promise.all(Array.from({ length: 10 }, () => begin(id)));
  expect(new Set(all)).toEqual(new Set([LOGIN]));
  expect(fetched).toEqual([id]);
});

test("an authorized client keeps working while its document's host is unavailable, and others do not", async () => {
  const [known, unknown] = [publish(), publish()];
  const { tokens } = await letIn(known);
  for (const id of [known, unknown]) web.set(id, new Error("connect ETIMEDOUT"));
  it.clock.ms += 10 * MINUTE;
  const refreshed = await token(known, { grant_type: "refresh_token", refresh_token: tokens.refresh_token! });
  expect(refreshed.access_token).toBeDefined();
  expect(await begin(unknown)).toMatch(/^invalid_client .*could not be fetched/);
});

test("each token is recorded as a use of the client, once a minute at most", async () => {
  const id = publish();
  let { tokens } = await letIn(id);
  const refresh = async () => {
    tokens = await token(id, { grant_type: "refresh_token", refresh_token: tokens.refresh_token! });
    expect(tokens.access_token).toBeDefined();
    const text =
      "select extract(epoch from last_used_at)::float8 * 1000 as ms from oauth_clients where id = $1";
    return Math.round((await it.pool.query<{ ms: number }>(text, [id])).rows[0]!.ms);
  };
  const letInAt = it.clock.ms;
  it.clock.ms += MINUTE;
  expect(await refresh()).toBe(letInAt);
  it.clock.ms += 1;
  expect(await refresh()).toBe(letInAt + MINUTE + 1);
});

test("a client whose document was deleted, or no longer allows it, is refused", async () => {
  const id = publish();
  const { tokens } = await letIn(id);
  it.clock.ms += 10 * MINUTE;
  web.delete(id);
  expect(await begin(id)).toMatch(/^invalid_client .*answers 404/);
  const refresh = { grant_type: "refresh_token", refresh_token: tokens.refresh_token! };
  expect(await token(id, refresh)).toMatchObject({ error: "invalid_client" });
});

test("a document that cannot be fetched is retried twice a minute at most, and used once it is available", async () => {
  const id = publish();
  const { body } = web.get(id) as Fetched;
  web.set(id, { status: 503 });
  for (let i = 0; i < 3; i++) expect(await begin(id)).toMatch(/^invalid_client/);
  expect(fetched).toEqual([id]);
  web.set(id, { body });
  it.clock.ms += MINUTE / 2;
  expect(await begin(id)).toBe(LOGIN);
});

test.each([
  ["another client's", { client_id: "https://apps.berth-tests.dev/other.json" }, "its own URL"],
  ["one without client_id", { client_id: undefined }, "its own URL"],
  ["one with a secret", { client_secret: "s" }, "token_endpoint_auth_method none"],
  ["one that wants a secret", { token_endpoint_auth_method: "client_secret_basic" }, "method none"],
  ["one that wants to sign", { token_endpoint_auth_method: "private_key_jwt", jwks: {} }, "method none"],
  [
    "one with a redirect URI that may not be registered",
    { redirect_uris: ["http://evil.example/"] },
    "redirect_uris",
  ],
  ["one with no code flow", { grant_types: ["client_credentials"] }, "grant_types"],
])("%s is not used as a document", async (_which, more, why) => {
  expect(await begin(publish(more))).toContain(why);
});

test.each([
  ["HTML", { body: Buffer.from("<html>") }, "has to be JSON"],
  ["a redirect", { status: 302 }, "answers 302"],
  ["17 KiB", { body: Buffer.alloc(17 * 1024, " ") }, "16 KiB"],
])("%s is not used as a document", async (_which, answer, why) => {
  const id = publish();
  web.set(id, answer);
  expect(await begin(id)).toContain(why);
});

test("a client can redirect only as its document says", async () => {
  const id = publish({ redirect_uris: ["https://app.example.com/callback"] });
  expect(await begin(id, "https://app.example.com/callback")).toBe(LOGIN);
  expect(await begin(id, "https://evil.example/callback")).toContain("invalid_redirect_uri");
});

test("the document of a client that no user authorized is not stored", async () => {
  const id = publish();
  expect(await begin(id)).toBe(LOGIN);
  expect((await it.pool.query("select from oauth_clients where id = $1", [id])).rowCount).toBe(0);
});

test.each([
  ...[
    "http://apps.berth-tests.dev/client.json",
    "https://127.0.0.1/client.json",
    "https://[::1]/client.json",
  ],
  ...["https://localhost/client.json", "https://intranet/client.json", "https://db.internal/client.json"],
  ...["https://a.svc.cluster.local/client.json", "https://169.254.169.254/latest/meta-data"],
  ...["https://apps.berth-tests.dev", "https://apps.berth-tests.dev/", "https://u:p@apps.berth-tests.dev/c"],
  ...[
    "https://apps.berth-tests.dev/c#x",
    "https://apps.berth-tests.dev/a/../c",
    "https://apps.berth-tests.dev/%2e%2e/c",
  ],
  ...[
    "https://APPS.berth-tests.dev/c",
    "https://apps.berth-tests.dev:443/c",
    "https://apps.berth-tests.dev\\@x/c",
  ],
  ...[
    "https://2130706433/c",
    "ftp://apps.berth-tests.dev/c",
    `https://apps.berth-tests.dev/${"c".repeat(512)}`,
  ],
])("%s is never fetched", async (id) => {
  expect(isDocumentUrl(id)).toBe(false);
  expect(await begin(id)).toMatch(/^invalid_client/);
  expect(fetched).toEqual([]);
});

test("an installation can disable documents", async () => {
  let asked = 0;
  const without = await startIdentity({ OAUTH_CLIENT_ID_METADATA: "off" }, async () => {
    asked++;
    throw new Error("never");
  });
  try {
    expect(await begin(publish(), undefined, without)).toMatch(/^invalid_client/);
    expect(asked).toBe(0);
  } finally {
    await without.stop();
  }
});
