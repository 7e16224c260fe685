import { expect, inject, test } from "vitest";
import { createRandom } from "../../../kit/testing/random.ts";
import { readMetadata } from "./client-metadata.ts";

const rules = { customSchemes: true, hosts: undefined, devices: true };
const redirect_uris = ["http://127.0.0.1/callback"];

function readText(text: string | Buffer) {
  return readMetadata(Buffer.from(text as string), rules);
}

/** Returns what is stored of a client that sends this besides a redirect URI. */
function stored(sent: Record<string, unknown>): Record<string, unknown> {
  const read = readText(JSON.stringify({ redirect_uris, ...sent }));
  if ("error" in read) throw new Error(`${read.error}: ${read.errorDescription}`);
  return read.client;
}

function refused(sent: Record<string, unknown>): string {
  const read = readText(JSON.stringify({ redirect_uris, ...sent }));
  return "error" in read ? `${read.error}: ${read.errorDescription}` : "is accepted";
}

const plain = {
  client_name: "Unnamed client",
  redirect_uris,
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
  token_endpoint_auth_method: "none",
  application_type: "native",
  scope: "platform:read platform:write offline_access",
};

test("a client with only a redirect URI becomes a public client with everything it needs", () => {
  expect(stored({})).toEqual(plain);
});

test("null and empty members count as absent, and are never returned", () => {
  const empty = { client_name: "", client_uri: "", logo_uri: null, contacts: null, software_id: "" };
  expect(stored({ ...empty, tos_uri: null, grant_types: null, response_types: null, scope: null })).toEqual(
    plain,
  );
  expect(stored({ contacts: ["", null], client_name: " \u200b " })).toEqual(plain);
});

test("members that are unknown, secret or not for clients to choose are ignored", () => {
  const ignored = {
    ...{
      client_id: "mine",
      client_secret: "s",
      registration_access_token: "t",
      registration_client_uri: "u",
    },
    ...{
      jwks: { keys: [] },
      jwks_uri: "http://169.254.169.254/",
      sector_identifier_uri: "http://localhost/",
    },
    ...{ request_uris: ["http://x/"], post_logout_redirect_uris: ["x"], software_statement: "x" },
    ...{ metadata: {}, audience: ["x"], skip_consent: true, owner: "me", "client_name#de": "x", extra: 1 },
  };
  expect(stored(ignored)).toEqual(plain);
});

const DEVICE = "urn:ietf:params:oauth:grant-type:device_code";

test.each([
  [[DEVICE], [], ["refresh_token", DEVICE]],
  [["implicit", DEVICE, "authorization_code"], ["code"], ["authorization_code", "refresh_token", DEVICE]],
  [["authorization_code"], ["code"], ["authorization_code", "refresh_token"]],
])("a client that asks for the grants %j can use %j and %j", (asked, response_types, grant_types) => {
  expect(stored({ grant_types: asked })).toMatchObject({ grant_types, response_types });
});

test("a client that only runs on devices needs no redirect URI", () => {
  expect(stored({ grant_types: [DEVICE], redirect_uris: undefined }).redirect_uris).toEqual([]);
  const without = { ...rules, devices: false };
  const read = (sent: object) => readMetadata(Buffer.from(JSON.stringify(sent)), without);
  expect(read({ grant_types: [DEVICE] })).toMatchObject({ error: "invalid_client_metadata" });
  expect(read({ grant_types: [DEVICE, "authorization_code"], redirect_uris })).toMatchObject({
    client: { grant_types: ["authorization_code", "refresh_token"] },
  });
});

test("whatever authentication a client asks for, it gets none", () => {
  for (const method of ["client_secret_basic", "private_key_jwt", "none", 7])
    expect(stored({ token_endpoint_auth_method: method })).toEqual(plain);
});

test.each([
  [["http://localhost/"], undefined, "native"],
  [["cursor://callback/"], undefined, "native"],
  [["https://app.example.com/"], undefined, "web"],
  [["https://vscode.dev/redirect", "http://127.0.0.1:33418/"], undefined, "native"],
  [["https://app.example.com/"], "native", "native"],
  [["http://localhost/"], "web", "web"],
  [["cursor://callback/"], "web", "native"],
  [["https://app.example.com/"], "", "web"],
])("a client with %j that calls itself %s is %s", (uris, asked, type) => {
  expect(stored({ redirect_uris: uris, application_type: asked }).application_type).toBe(type);
});

test.each(["spa", "Native", 7, ["web"]])("an application type %j is refused", (asked) => {
  const bytes = Buffer.from(
    JSON.stringify({ redirect_uris: ["http://localhost/"], application_type: asked }),
  );
  expect(readMetadata(bytes, rules)).toEqual({
    error: "invalid_client_metadata",
    errorDescription: "application_type has to be native or web, or absent",
  });
});

test("redirect URIs are stored as they were sent, each once", () => {
  const uris = ["https://App.Example.com:443/a/../b?x=%7e", "http://localhost/"];
  expect(stored({ redirect_uris: [...uris, uris[0]] }).redirect_uris).toEqual(uris);
});

test.each([
  [undefined, "platform:read platform:write offline_access"],
  ["", "platform:read platform:write offline_access"],
  ["openid profile", "platform:read platform:write offline_access"],
  ["platform:read", "platform:read offline_access"],
  ["email platform:write  platform:write", "platform:write offline_access"],
  ["offline_access", "platform:read platform:write offline_access"],
])("a client that asks for the scope %j can use %j", (asked, scope) => {
  expect(stored({ scope: asked }).scope).toBe(scope);
});

test("a client's description is stored, in normalized form", () => {
  const said = {
    client_name: "  Ada\u2019s\tApp\n",
    client_uri: "https://Example.com/\u00fcber",
    logo_uri: "https://example.com/logo.png",
    tos_uri: "https://example.com/tos",
    policy_uri: "https://example.com/policy",
    contacts: ["ada@example.com", "not an address"],
    software_id: "app",
    software_version: "1.0",
  };
  expect(stored(said)).toEqual({
    ...plain,
    ...said,
    client_name: "Ada\u2019s App",
    client_uri: "https://example.com/%C3%BCber",
  });
});

test("a name contains no invisible or bidirectional characters", () => {
  const name = (client_name: string) => stored({ client_name }).client_name;
  expect(name("Safe\u202e\u2066 \u200bApp\u0000\u0007\ufeff\u00ad\u2028!")).toBe("Safe App !");
  expect(name("\ud800A\udfff")).toBe("A");
  expect(name("e\u0301")).toBe("\u00e9");
  expect(name("\u3164\u2800")).toBe("Unnamed client");
  expect(name("名前 🚀")).toBe("名前 🚀");
  expect(name("🚀".repeat(80))).toBe("🚀".repeat(80));
  expect(refused({ client_name: "🚀".repeat(81) })).toContain("client_name must not have more than 80");
});

test.each([
  [{ redirect_uris: undefined }, "invalid_redirect_uri: redirect_uris has to be a list of 1 to 10 URIs"],
  [{ redirect_uris: [] }, "invalid_redirect_uri: redirect_uris has to be a list"],
  [{ redirect_uris: "https://app.example.com/" }, "invalid_redirect_uri: redirect_uris has to be a list"],
  [
    { redirect_uris: Array(11).fill(redirect_uris[0]) },
    "invalid_redirect_uri: redirect_uris has to be a list",
  ],
  [{ redirect_uris: [redirect_uris[0], 7] }, "invalid_redirect_uri: redirect_uris[1] has to be a text"],
  [
    { redirect_uris: ["http://app.example.com/"] },
    "invalid_redirect_uri: redirect_uris[0] may use http only",
  ],
  [
    { grant_types: ["implicit"] },
    "invalid_client_metadata: grant_types has to be a list with authorization_code",
  ],
  [{ grant_types: ["password", "client_credentials"] }, "invalid_client_metadata: grant_types"],
  [{ grant_types: "authorization_code" }, "invalid_client_metadata: grant_types"],
  [{ response_types: ["token"] }, "invalid_client_metadata: response_types has to be a list with code"],
  [{ client_name: { de: "x" } }, "invalid_client_metadata: client_name has to be text"],
  [{ client_uri: "http://example.com/" }, "invalid_client_metadata: client_uri has to be an https URL"],
  [{ client_uri: "https://user@example.com/" }, "invalid_client_metadata: client_uri has to be an https URL"],
  [{ logo_uri: "data:image/png;base64,AA" }, "invalid_client_metadata: logo_uri has to be an https URL"],
  [{ tos_uri: "javascript:alert(1)" }, "invalid_client_metadata: tos_uri has to be an https URL"],
  [
    { policy_uri: `https://example.com/${"a".repeat(1024)}` },
    "invalid_client_metadata: policy_uri has to be",
  ],
  [{ contacts: "ada@example.com" }, "invalid_client_metadata: contacts has to be a list of at most 10 texts"],
  [{ contacts: [{}] }, "invalid_client_metadata: contacts has to be text"],
  [
    { contacts: ["a".repeat(256)] },
    "invalid_client_metadata: contacts must not have more than 255 characters",
  ],
  [{ software_id: "a".repeat(256) }, "invalid_client_metadata: software_id must not have more than 255"],
  [{ software_version: 2 }, "invalid_client_metadata: software_version has to be text"],
])("%j is refused, and the error says what to change", (sent, error) => {
  expect(refused(sent)).toContain(error);
});

test.each([
  ["no JSON", "{", "The body has to be JSON in UTF-8"],
  ["nothing", "", "The body has to be JSON in UTF-8"],
  ["a list", "[]", "The body has to be a JSON object"],
  ["null", "null", "The body has to be a JSON object"],
  ["bytes that are no UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), "The body has to be JSON in UTF-8"],
  ["16 KiB of nesting", "[".repeat(16 * 1024), "The body has to be JSON in UTF-8"],
  ["more than 16 KiB", `{"a":"${"a".repeat(16 * 1024)}"}`, "The body must not have more than 16 KiB"],
  ["more than 16 KiB of nesting", "[".repeat(1024 * 1024), "The body must not have more than 16 KiB"],
])("a body of %s is refused as metadata", (_what, body, errorDescription) => {
  expect(readText(body)).toEqual({ error: "invalid_client_metadata", errorDescription });
});

test("a prototype is not a member, and of a duplicate member the last counts", () => {
  const [uri] = redirect_uris;
  expect(readText(`{"__proto__": {"redirect_uris": ["${uri}"]}}`)).toMatchObject({
    error: "invalid_redirect_uri",
  });
  expect(
    readText(`{"redirect_uris": ["${uri}"], "constructor": {"prototype": {"x": 1}}, "__proto__": null}`),
  ).toEqual({
    client: plain,
  });
  expect(({} as { x?: number }).x).toBeUndefined();
  const twice = readText(`{"redirect_uris": ["javascript:1"], "redirect_uris": ["${uri}"]}`);
  expect(twice).toEqual({ client: plain });
});

const NASTY: unknown[] = [
  ...[
    null,
    true,
    0,
    -1,
    1e308,
    "",
    " ",
    "\u0000",
    "\ud800",
    "\u202e",
    "a".repeat(2000),
    [],
    {},
    [[]],
    [null],
  ],
  ...[
    "https://app.example.com/",
    "http://localhost",
    "javascript:alert(1)",
    "cursor://x",
    "%",
    "//",
    "#",
    "*",
  ],
  ...[["code"], ["authorization_code"], ["https://app.example.com/", 7], { toString: 1 }, { length: 3 }],
];
const NAMES = [
  ...["redirect_uris", "client_name", "client_uri", "logo_uri", "tos_uri", "policy_uri", "grant_types"],
  ...[
    "response_types",
    "application_type",
    "scope",
    "contacts",
    "software_id",
    "software_version",
    "__proto__",
  ],
];
/** Whether a value is what PostgreSQL stores of JSON, without members that are null or empty. */
function isSound(value: unknown): boolean {
  if (typeof value === "string") return value !== "" && value.isWellFormed() && !value.includes("\u0000");
  if (Array.isArray(value)) return value.length > 0 && value.every(isSound);
  return false;
}

test("every body is either stored validated or refused with an error of RFC 7591", () => {
  const random = createRandom(inject("seed"));
  const outcomes = { stored: 0, refused: 0 };
  for (let n = 0; n < 5000; n++) {
    const sent: [string, unknown][] = [["redirect_uris", redirect_uris]];
    for (let i = random.below(4); i > 0; i--) sent.push([random.of(NAMES), random.of(NASTY)]);
    const bytes = Buffer.from(JSON.stringify(Object.fromEntries(sent)));
    for (let i = random.below(8) === 0 ? random.between(1, 4) : 0; i > 0; i--)
      bytes[random.below(bytes.length)] = random.below(256);
    const read = readMetadata(bytes, rules);
    if ("error" in read) {
      outcomes.refused++;
      expect(["invalid_redirect_uri", "invalid_client_metadata"]).toContain(read.error);
      // The characters of RFC 6749, section 5.2.
      expect(read.errorDescription).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
    } else {
      outcomes.stored++;
      expect(Object.values(read.client).filter((value) => !isSound(value))).toEqual([]);
      expect(read.client).toMatchObject({ token_endpoint_auth_method: "none" });
    }
  }
  expect(outcomes.stored).toBeGreaterThan(100);
  expect(outcomes.refused).toBeGreaterThan(100);
});
