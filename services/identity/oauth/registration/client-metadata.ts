import { isObject } from "../../../kit/process/config.ts";
import type { RegistrationRefusal } from "../port.ts";
import { DEVICE_GRANT, OFFLINE, READ, WRITE } from "../scopes.ts";
import { type RedirectRules, type RedirectUri, readRedirectUri } from "./redirect-uri.ts";

/** Validated client metadata: no member is empty or null. */
export type ClientMetadata = { client_name: string; redirect_uris: string[] } & Record<string, unknown>;

/** What clients may register. */
export type MetadataRules = RedirectRules & {
  /** Whether the provider has the grant of devices without a browser. */
  devices: boolean;
};

export const MAX_METADATA = 16 * 1024;
const CODE_GRANT = "authorization_code";
const MAX_URIS = 10;
const MAX_NAME = 80;
const MAX_TEXT = 255;
const MAX_CONTACTS = 10;
const MAX_LINK = 1024;

class MetadataError extends Error {
  readonly code: RegistrationRefusal["error"];

  constructor(code: RegistrationRefusal["error"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Validates client metadata (docs/oauth.md#registration). Returns what is to be stored, or the error of RFC 7591, which
 * repeats nothing that was sent. Every client becomes a public one; members that are unknown, or that clients cannot
 * choose, are ignored. `unnamed` is the name of a client without one.
 */
export function readMetadata(
  bytes: Uint8Array,
  rules: MetadataRules,
  unnamed = "Unnamed client",
): { client: ClientMetadata } | RegistrationRefusal {
  try {
    return { client: validated(parse(bytes), rules, unnamed) };
  } catch (error) {
    if (!(error instanceof MetadataError)) throw error;
    return { error: error.code, errorDescription: error.message };
  }
}

function validated(sent: Record<string, unknown>, rules: MetadataRules, unnamed: string): ClientMetadata {
  const grants = readGrants(sent, rules);
  const redirects = grants.includes(CODE_GRANT);
  // A device has no browser to redirect.
  const { uris, kinds } = redirects ? readRedirectUris(sent.redirect_uris, rules) : { uris: [], kinds: [] };
  if (redirects) requireIncluded(sent, "response_types", "code");
  const links = ["client_uri", "logo_uri", "tos_uri", "policy_uri"].map((name) => [
    name,
    readLink(sent, name),
  ]);
  const texts = ["software_id", "software_version"].map((name) => [name, readText(sent, name, MAX_TEXT)]);
  const optional = Object.fromEntries([...links, ...texts, ["contacts", readContacts(sent.contacts)]]);
  for (const name of Object.keys(optional)) if (optional[name] === undefined) delete optional[name];
  return {
    client_name: readText(sent, "client_name", MAX_NAME) ?? unnamed,
    redirect_uris: uris,
    grant_types: grants,
    response_types: redirects ? ["code"] : [],
    token_endpoint_auth_method: "none",
    application_type: typeOf(sent.application_type, kinds),
    scope: readScope(sent.scope),
    ...optional,
  };
}

/** Parses the bytes as a JSON object. */
function parse(bytes: Uint8Array): Record<string, unknown> {
  if (bytes.length > MAX_METADATA) throw invalidMetadata("The body must not have more than 16 KiB");
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw invalidMetadata("The body has to be JSON in UTF-8");
  }
  if (!isObject(value)) throw invalidMetadata("The body has to be a JSON object");
  return value;
}

/** Returns the grant types to store. Every client may refresh; of the others, it gets those that it asked for. */
function readGrants(sent: Record<string, unknown>, { devices }: MetadataRules): string[] {
  const offered = devices ? [CODE_GRANT, DEVICE_GRANT] : [CODE_GRANT];
  const requested = sent.grant_types ?? [CODE_GRANT];
  const granted = offered.filter((grant) => Array.isArray(requested) && requested.includes(grant));
  if (granted.length === 0)
    throw invalidMetadata(`grant_types has to be a list with ${offered.join(" or ")}, or absent`);
  return [...granted, "refresh_token"].sort();
}

function readRedirectUris(sent: unknown, rules: RedirectRules) {
  if (!Array.isArray(sent) || sent.length < 1 || sent.length > MAX_URIS)
    throw new MetadataError(
      "invalid_redirect_uri",
      `redirect_uris has to be a list of 1 to ${MAX_URIS} URIs`,
    );
  const kinds: string[] = sent.map((uri: unknown, at) => {
    const read: RedirectUri = readRedirectUri(uri, rules);
    if ("problem" in read)
      throw new MetadataError("invalid_redirect_uri", `redirect_uris[${at}] ${read.problem}`);
    return read.kind;
  });
  return { uris: [...new Set(sent as string[])], kinds };
}

/** Returns the application type. Native clients may redirect to any port of loopback, web clients only as registered. */
function typeOf(sent: unknown, kinds: string[]): "native" | "web" {
  if (![undefined, null, "", "native", "web"].includes(sent as string))
    throw invalidMetadata("application_type has to be native or web, or absent");
  if (kinds.includes("custom") || sent === "native") return "native";
  return kinds.includes("loopback") && sent !== "web" ? "native" : "web";
}

function requireIncluded(sent: Record<string, unknown>, name: string, required: string): void {
  const values = sent[name] ?? undefined;
  if (values === undefined || (Array.isArray(values) && values.includes(required))) return;
  throw invalidMetadata(`${name} has to be a list with ${required}, or absent`);
}

/** Returns the scope to store. Scopes are informative here, so every client gets a usable one. */
function readScope(sent: unknown): string {
  const requested = typeof sent === "string" ? sent.split(" ") : [];
  const known = [READ, WRITE].filter((scope) => requested.includes(scope));
  return [...(known.length > 0 ? known : [READ, WRITE]), OFFLINE].join(" ");
}

function readLink(sent: Record<string, unknown>, name: string): string | undefined {
  const value = sent[name];
  if (value === undefined || value === null || value === "") return undefined;
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : undefined;
  if (url?.protocol !== "https:" || url.username !== "" || url.password !== "" || url.href.length > MAX_LINK)
    throw invalidMetadata(`${name} has to be an https URL of at most ${MAX_LINK} characters without a user`);
  return url.href;
}

function readContacts(sent: unknown): string[] | undefined {
  if (sent === undefined || sent === null) return undefined;
  if (!Array.isArray(sent) || sent.length > MAX_CONTACTS)
    throw invalidMetadata(`contacts has to be a list of at most ${MAX_CONTACTS} texts`);
  const contacts = sent.map((value: unknown) => readText({ contacts: value }, "contacts", MAX_TEXT));
  const given = contacts.filter((contact) => contact !== undefined);
  return given.length > 0 ? given : undefined;
}

/** Returns a text without invisible characters, or undefined when none is left. */
function readText(sent: Record<string, unknown>, name: string, max: number): string | undefined {
  const value = sent[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== "string") throw invalidMetadata(`${name} has to be text`);
  const text = visible(value);
  if ([...text].length > max) throw invalidMetadata(`${name} must not have more than ${max} characters`);
  return text === "" ? undefined : text;
}

/** Control, format (bidirectional, zero-width), unassigned and surrogate characters, and invisible letters. */
const INVISIBLE = /[\p{C}\u115f\u1160\u2800\u3164\uffa0]/gu;

function visible(text: string): string {
  return text.normalize("NFC").replace(/\s/gu, " ").replace(INVISIBLE, "").replace(/ +/g, " ").trim();
}

function invalidMetadata(message: string): MetadataError {
  return new MetadataError("invalid_client_metadata", message);
}
