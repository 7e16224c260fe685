import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { startIdentity, type TestIdentity } from "../../testing.ts";
import { guarded } from "../guarded.ts";
import { type IdentityProvider, ProviderUnavailable } from "../port.ts";
import { clientRegistration } from "./register.ts";
import { sweepClients } from "./sweep-clients.ts";

const HOUR = 3600_000;
const DAY = 24 * HOUR;
let it: TestIdentity;

beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it.stop());

/** Registers a client and returns the answer's document. */
async function register(sent: object, ip = "203.0.113.9"): Promise<Record<string, string>> {
  const { result } = await it.gateway.registerClient({ metadata: Buffer.from(JSON.stringify(sent)), ip });
  if (result.case !== "client") throw new Error(JSON.stringify(result.value));
  return JSON.parse(result.value);
}

/** What the provider answers to the authorization request of a client: a page of ours that it redirects to. */
async function authorize(clientId: string, redirectUri: string): Promise<string> {
  const url = new URL(`http://127.0.0.1:${it.port}/oauth2/auth`);
  url.search = new URLSearchParams({
    client_id: clientId,
    response_type: "code",
    redirect_uri: redirectUri,
    code_challenge: createHash("sha256").update("verifier").digest("base64url"),
    code_challenge_method: "S256",
    state: "s",
  }).toString();
  const answer = await fetch(url, { redirect: "manual" });
  const { pathname, searchParams } = new URL(answer.headers.get("location")!);
  return searchParams.get("error") ?? pathname;
}

const LOGIN = "/oauth/login";
const REFUSED = "invalid_redirect_uri";
const native = [
  ...["http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost/cb", "http://localhost:7777/other"],
  ...["https://app.example.com/cb", "cursor://anysphere.cursor-mcp/cb", "com.example.app:/cb"],
];

test.each([
  ...["http://127.0.0.1/cb", "http://127.0.0.1:33418/cb", "http://[::1]:33418/cb", "http://localhost:1/cb"],
  ...["http://localhost:9/other", "https://app.example.com/cb", "cursor://anysphere.cursor-mcp/cb"],
  ...["com.example.app:/cb"],
])("a native client may redirect to %s: any port of loopback, else as registered", async (uri) => {
  const { client_id } = await register({ redirect_uris: native });
  expect(await authorize(client_id!, uri)).toBe(LOGIN);
});

test.each([
  ...["http://127.0.0.1:33418/other", "http://localhost:33418/cb?x=1", "http://127.0.0.2/cb"],
  ...["https://app.example.com:8443/cb", "https://app.example.com/cb/", "https://app.example.com/CB"],
  ...[
    "cursor://anysphere.cursor-mcp/cb?x",
    "cursor://evil/cb",
    "com.example.app://cb",
    "javascript:alert(1)",
  ],
  ...[
    "http://localhost@evil.example/cb",
    "http://127.0.0.1:33418@evil.example/cb",
    "https://evil.example/cb",
  ],
])("a native client may not redirect to %s", async (uri) => {
  const { client_id } = await register({ redirect_uris: native });
  expect(await authorize(client_id!, uri)).toBe(REFUSED);
});

test("a web client may redirect exactly where it registered", async () => {
  const redirect_uris = ["https://App.Example.com:443/a/../cb?x=%7e", "http://localhost:3000/cb"];
  const { client_id } = await register({ redirect_uris, application_type: "web" });
  for (const uri of redirect_uris) expect(await authorize(client_id!, uri)).toBe(LOGIN);
  for (const uri of ["https://app.example.com/cb?x=~", "http://localhost:3001/cb", "http://localhost/cb"])
    expect(await authorize(client_id!, uri)).toBe(REFUSED);
});

test("the provider accepts all metadata that registration stores", async () => {
  const said = {
    contacts: ["no address"],
    scope: "openid email",
    software_id: "x",
    tos_uri: "https://example.com/",
  };
  const links = {
    client_uri: "https://example.com/",
    logo_uri: "https://example.com/l.png",
    client_name: "🚀",
  };
  const { client_id } = await register({ redirect_uris: ["https://app.example.com/"], ...said, ...links });
  expect(await authorize(client_id!, "https://app.example.com/")).toBe(LOGIN);
});

test("a refused client leaves nothing behind", async () => {
  const count = async () => (await it.pool.query("select count(*)::int as n from oauth_clients")).rows[0].n;
  const before = await count();
  const { result } = await it.gateway.registerClient({ metadata: Buffer.from("{}"), ip: "203.0.113.9" });
  expect(result.value).toMatchObject({ error: "invalid_redirect_uri" });
  expect(await count()).toBe(before);
});

test("a registration is recorded with its address, in no account", async () => {
  const { client_id } = await register({ redirect_uris: native, client_name: "Recorded" }, "198.51.100.77");
  const record = await eventually("the audit record", async () => {
    const text = "select action, account_id, actor_kind, metadata, ip from audit_events where target = $1";
    return (await it.pool.query(text, [client_id])).rows[0];
  });
  expect(record).toMatchObject({
    action: "oauth.client.registered",
    metadata: { clientName: "Recorded" },
    ip: "198.51.100.77",
  });
});

test("a registration that fails at the provider is a 502, and deleted at the next sweep", async () => {
  const registerClient = async () => {
    throw new ProviderUnavailable("away");
  };
  const provider = guarded({ registerClient } as unknown as IdentityProvider);
  const rules = { customSchemes: true, hosts: undefined, devices: true };
  const away = clientRegistration({ pool: it.pool, provider, rules, now: () => it.clock.ms });
  const by = { caller: { kind: "anonymous", id: "", ip: "203.0.113.9" }, requestId: "req" } as const;
  const metadata = Buffer.from('{"client_name": "Away", "redirect_uris": ["https://app.example.com/"]}');
  expect(await refused(away(metadata, by))).toBe("502 identity_provider_unavailable");
  const gone: string[] = [];
  const back = { deleteClient: async (id: string) => void gone.push(id) };
  await sweepClients({ pool: it.pool, provider: back }, new Date(it.clock.ms));
  expect(gone).toHaveLength(1);
  expect(await left(gone)).toEqual([]);
});

/** Moves the times of a client into the past: registered, and authorized and used if it was. */
async function age(clientId: string, ms: { registered: number; used?: number }) {
  const text = `update oauth_clients set registered_at = $2, last_used_at = coalesce($3, last_used_at),
    authorized_at = $3 where id = $1`;
  const used = ms.used === undefined ? null : new Date(it.clock.ms - ms.used);
  await it.pool.query(text, [clientId, new Date(it.clock.ms - ms.registered), used]);
}

const left = async (ids: string[]) =>
  (await it.pool.query("select id from oauth_clients where id = any($1)", [ids])).rows.map(({ id }) => id);

async function registered(): Promise<string> {
  return (await register({ redirect_uris: ["https://app.example.com/"] })).client_id!;
}

async function grantOf(clientId: string, end: "live" | "revoked" | "over"): Promise<void> {
  const text = `insert into oauth_grants (id, user_id, client_id, client_name, account_id, membership_id, role,
      granted_at, expires_at, revoked_at)
    values ('grt_' || $2, $1, $2, 'Kept', $3, 'mbr_1', 'reader', now(), $4, $5)`;
  const [now, later] = [new Date(it.clock.ms), new Date(it.clock.ms + DAY)];
  const ends = { live: [later, null], revoked: [now, now], over: [now, null] }[end];
  await it.pool.query(text, [it.ownerId, clientId, it.accountId, ...ends]);
}

test("clients that no user authorized are deleted after a day, idle ones without a grant after 90 days", async () => {
  const names = [
    "new",
    "never",
    "used",
    "idle",
    "idle with a grant",
    "idle with a revoked grant",
    "idle with a grant that is over",
  ];
  const ids = await Promise.all(names.map(() => registered()));
  const [fresh, never, used, idle, granted, revoked, over] = ids as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  await age(fresh, { registered: DAY - 1000 });
  await age(never, { registered: DAY + 1000 });
  await age(used, { registered: 365 * DAY, used: 90 * DAY - 1000 });
  for (const id of [idle, granted, revoked, over])
    await age(id, { registered: 365 * DAY, used: 90 * DAY + 1000 });
  await grantOf(granted, "live");
  await grantOf(revoked, "revoked");
  await grantOf(over, "over");
  const gone: string[] = [];
  const provider = { deleteClient: async (id: string) => void gone.push(id) };
  await sweepClients({ pool: it.pool, provider }, new Date(it.clock.ms));
  expect((await left(ids)).sort()).toEqual([fresh, used, granted].sort());
  expect(gone.filter((id) => ids.includes(id)).sort()).toEqual([never, idle, revoked, over].sort());
  expect(await authorize(never, "https://app.example.com/")).toBe("invalid_client");
  expect(await authorize(used, "https://app.example.com/")).toBe(LOGIN);
});

test("a deletion that failed at the provider is repeated, and the client is refused meanwhile", async () => {
  const id = await registered();
  await age(id, { registered: 2 * DAY });
  const away = {
    deleteClient: async () => {
      throw new Error("away");
    },
  };
  await expect(sweepClients({ pool: it.pool, provider: away }, new Date(it.clock.ms))).rejects.toThrow(
    "away",
  );
  expect(await authorize(id, "https://app.example.com/")).toBe("invalid_client");
  expect(await left([id])).toEqual([id]);
  const gone: string[] = [];
  const back = { deleteClient: async (client: string) => void gone.push(client) };
  await sweepClients({ pool: it.pool, provider: back }, new Date(it.clock.ms));
  expect(gone).toContain(id);
  expect(await left([id])).toEqual([]);
});

test("clients that the provider cannot delete hold up no others, however many there are", async () => {
  const [stuck, deletable] = [12, 3].map((count) => Array.from({ length: count }, () => registered()));
  const [broken, others] = [await Promise.all(stuck!), await Promise.all(deletable!)];
  for (const id of broken) await age(id, { registered: 9 * DAY });
  for (const id of others) await age(id, { registered: 2 * DAY });
  const provider = {
    deleteClient: async (id: string) => {
      if (broken.includes(id)) throw new Error(`${id} cannot be deleted`);
    },
  };
  const sweepAt = (ms: number) => sweepClients({ pool: it.pool, provider }, new Date(it.clock.ms + ms));
  for (const [run, minutes] of [15, 30].entries())
    await expect(sweepAt(minutes * 60_000), `run ${run}`).rejects.toThrow("cannot be deleted");
  expect(await left(others)).toEqual([]);
  expect((await left(broken)).sort()).toEqual(broken.toSorted());
  await it.pool.query("delete from oauth_clients where id = any($1)", [broken]);
});

test("two replicas that sweep at once delete every client", async () => {
  const ids = await Promise.all(Array.from({ length: 20 }, () => registered()));
  for (const id of ids) await age(id, { registered: 2 * DAY });
  const provider = { deleteClient: async () => {} };
  const at = new Date(it.clock.ms);
  await Promise.all([1, 2, 3].map(() => sweepClients({ pool: it.pool, provider }, at)));
  await sweepClients({ pool: it.pool, provider }, at);
  expect(await left(ids)).toEqual([]);
});

test("the ten thousand and first unauthorized client evicts the oldest, never one that is in use", async () => {
  const [oldest, letIn] = [await registered(), await registered()];
  await age(oldest, { registered: 20 * HOUR });
  await age(letIn, { registered: 21 * HOUR, used: HOUR });
  await it.pool.query(
    `insert into oauth_clients (id, metadata, registered_at, last_used_at)
     select 'flood-' || n, '{"client_id": "x"}', $1, $1 from generate_series(1, 10000) n`,
    [new Date(it.clock.ms - HOUR)],
  );
  const newest = await registered();
  expect(await authorize(newest, "https://app.example.com/")).toBe(LOGIN);
  expect(await authorize(letIn, "https://app.example.com/")).toBe(LOGIN);
  expect(await authorize(oldest, "https://app.example.com/")).toBe("invalid_client");
  // In batches, however many there are.
  await it.pool.query("update oauth_clients set registered_at = $1 where id like 'flood-%'", [
    new Date(it.clock.ms - 2 * DAY),
  ]);
  await sweepClients({ pool: it.pool, provider: { deleteClient: async () => {} } }, new Date(it.clock.ms));
  const { rows } = await it.pool.query("select id from oauth_clients where id like 'flood-%'");
  expect(rows).toEqual([]);
});
