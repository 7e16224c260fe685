import { isObject } from "../../../kit/process/config.ts";
import type { RegistrationRefusal } from "../port.ts";
import { OFFLINE, READ, WRITE } from "../scopes.ts";
import { type RedirectRules, type RedirectUri, readRedirectUri } from "./redirect-uri.ts";

/** A client's description of itself, made sound: no member is empty or null. */
export type ClientMetadata = { client_name: string; redirect_uris: string[] } & Record<string, unknown>;

export const MAX_METADATA = 16 * 1024;
const MAX_URIS = 10;
const MAX_NAME = 80;
const MAX_TEXT = 255;
const MAX_CONTACTS = 10;
const MAX_LINK = 1024;

class Mistake extends Error {
  readonly code: RegistrationRefusal["error"];

  constructor(code: RegistrationRefusal["error"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Reads what a client says of itself (docs/oauth.md#registration): what is to be stored of it, or the error of RFC
 * 7591, which repeats nothing of what was sent. Every client becomes a public one; members that are unknown, or that
 * nobody may choose, are ignored. `unnamed` is the name of one that gives none.
 */
export function readMetadata(
  bytes: Uint8Array,
  rules: RedirectRules,
  unnamed = "Unnamed client",
): { client: ClientMetadata } | RegistrationRefusal {
  try {
    return { client: sound(parse(bytes), rules, unnamed) };
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    return { error: error.code, errorDescription: error.message };
  }
}

function sound(sent: Record<string, unknown>, rules: RedirectRules, unnamed: string): ClientMetadata {
  const { uris, kinds } = readRedirectUris(sent.redirect_uris, rules);
  requireAmong(sent, "grant_types", "authorization_code");
  requireAmong(sent, "response_types", "code");
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
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: typeOf(sent.application_type, kinds),
    scope: readScope(sent.scope),
    ...optional,
  };
}

/** Returns the object that the bytes hold. */
function parse(bytes: Uint8Array): Record<string, unknown> {
  if (bytes.length > MAX_METADATA) throw metadataMistake("The body must not have more than 16 KiB");
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw metadataMistake("The body has to be JSON in UTF-8");
  }
  if (!isObject(value)) throw metadataMistake("The body has to be a JSON object");
  return value;
}

function readRedirectUris(sent: unknown, rules: RedirectRules) {
  if (!Array.isArray(sent) || sent.length < 1 || sent.length > MAX_URIS)
    throw new Mistake("invalid_redirect_uri", `redirect_uris has to be a list of 1 to ${MAX_URIS} URIs`);
  const kinds: string[] = sent.map((uri: unknown, at) => {
    const read: RedirectUri = readRedirectUri(uri, rules);
    if ("mistake" in read) throw new Mistake("invalid_redirect_uri", `redirect_uris[${at}] ${read.mistake}`);
    return read.kind;
  });
  return { uris: [...new Set(sent as string[])], kinds };
}

/** Native clients may redirect to any port of loopback; web clients only to what they registered. */
function typeOf(sent: unknown, kinds: string[]): "native" | "web" {
  if (![undefined, null, "", "native", "web"].includes(sent as string))
    throw metadataMistake("application_type has to be native or web, or absent");
  if (kinds.includes("custom") || sent === "native") return "native";
  return kinds.includes("loopback") && sent !== "web" ? "native" : "web";
}

function requireAmong(sent: Record<string, unknown>, name: string, wanted: string): void {
  const values = sent[name] ?? undefined;
  if (values === undefined || (Array.isArray(values) && values.includes(wanted))) return;
  throw metadataMistake(`${name} has to be a list with ${wanted}, or absent`);
}

/** Scopes inform and decide nothing, so every client gets one that it can use. */
function readScope(sent: unknown): string {
  const asked = typeof sent === "string" ? sent.split(" ") : [];
  const known = [READ, WRITE].filter((scope) => asked.includes(scope));
  return [...(known.length > 0 ? known : [READ, WRITE]), OFFLINE].join(" ");
}

function readLink(sent: Record<string, unknown>, name: string): string | undefined {
  const value = sent[name];
  if (value === undefined || value === null || value === "") return undefined;
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : undefined;
  if (url?.protocol !== "https:" || url.username !== "" || url.password !== "" || url.href.length > MAX_LINK)
    throw metadataMistake(`${name} has to be an https URL of at most ${MAX_LINK} characters without a user`);
  return url.href;
}

function readContacts(sent: unknown): string[] | undefined {
  if (sent === undefined || sent === null) return undefined;
  if (!Array.isArray(sent) || sent.length > MAX_CONTACTS)
    throw metadataMistake(`contacts has to be a list of at most ${MAX_CONTACTS} texts`);
  const contacts = sent.map((value: unknown) => readText({ contacts: value }, "contacts", MAX_TEXT));
  const given = contacts.filter((contact) => contact !== undefined);
  return given.length > 0 ? given : undefined;
}

/** Returns a text without what cannot be seen, or undefined when nothing is left. */
function readText(sent: Record<string, unknown>, name: string, max: number): string | undefined {
  const value = sent[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== "string") throw metadataMistake(`${name} has to be text`);
  const text = visible(value);
  if ([...text].length > max) throw metadataMistake(`${name} must not have more than ${max} characters`);
  return text === "" ? undefined : text;
}

/** Control, format (bidirectional, zero-width), unassigned and surrogate characters, and blanks that look like nothing. */
const INVISIBLE = /[\p{C}\u115f\u1160\u2800\u3164\uffa0]/gu;

function visible(text: string): string {
  return text.normalize("NFC").replace(/\s/gu, " ").replace(INVISIBLE, "").replace(/ +/g, " ").trim();
}

function metadataMistake(message: string): Mistake {
  return new Mistake("invalid_client_metadata", message);
}
