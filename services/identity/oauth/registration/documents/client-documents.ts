import { LRUCache } from "lru-cache";
import type { Pool } from "../../../../kit/postgres/db.ts";
import { isObject } from "../../../../kit/process/config.ts";
import type { ClientDocument } from "../../port.ts";
import { readMetadata } from "../client-metadata.ts";
import { isPublicName } from "../host-names.ts";
import type { RedirectRules } from "../redirect-uri.ts";
import { findClient, upsertClient } from "../sql.ts";
import { DocumentTooLarge, type FetchDocument } from "./fetch-document.ts";

const MAX_ID = 512;
const MAX_KEPT = 500;
const MAX_UNDER_WAY = 50;
const MINUTE_MS = 60_000;
/** For how long a document is kept, unless it says, at least and at most. */
const KEPT_MS = { unlessSaid: 5 * MINUTE_MS, least: MINUTE_MS, most: 24 * 60 * MINUTE_MS };
/** For how long a document that could not be had is not asked for again. */
const FAILED_MS = MINUTE_MS / 2;

/** The document of a client cannot be used, or had; the message says why. */
export class DocumentRefused extends Error {}

type Found = { client: ClientDocument } | { refusal: string };

/** Whether a client id is the URL of a document that may be fetched. */
export function isDocumentUrl(id: string): boolean {
  if (id.length > MAX_ID || !/^https:\/\/[\w.~:/?[\]@!$&'()+,;=%-]+$/.test(id) || !URL.canParse(id))
    return false;
  const url = new URL(id);
  // Every document has one spelling, without dots in its path.
  if (url.href !== id || url.pathname === "/" || url.username !== "" || url.password !== "") return false;
  return isPublicName(url.hostname);
}

/**
 * Clients that a document on the web describes (docs/oauth.md#client-id-metadata-documents). A document counts by the
 * same rules as a registration. It is kept in memory; one that a user let in is stored as well, and counts on while its
 * host cannot be reached.
 */
export function clientDocuments(deps: {
  pool: Pool;
  rules: RedirectRules;
  now: () => number;
  fetchDocument: FetchDocument;
}) {
  const { pool, rules, now, fetchDocument } = deps;
  const kept = new LRUCache<string, { found: Found; until: number }>({ max: MAX_KEPT });
  const underWay = new Map<string, Promise<Found>>();

  async function load(id: string): Promise<Found> {
    const { found, keptMs } = await read(id);
    kept.set(id, { found, until: now() + keptMs });
    return found;
  }

  async function read(id: string): Promise<{ found: Found; keptMs: number }> {
    const fetched = await fetchDocument(new URL(id)).catch((error: unknown) => error as Error);
    if (fetched instanceof DocumentTooLarge) return failed("The client metadata document is too large");
    if (fetched instanceof Error || fetched.status >= 500) {
      const stored = await findClient(pool, id);
      if (stored) return { found: { client: stored }, keptMs: KEPT_MS.least };
      return failed("The client metadata document could not be fetched");
    }
    if (fetched.status !== 200) return failed(`The client metadata document answers ${fetched.status}`);
    const found = readDocument(fetched.body, id, rules);
    if ("refusal" in found) return failed(found.refusal);
    const asked = fetched.maxAgeSeconds === undefined ? KEPT_MS.unlessSaid : fetched.maxAgeSeconds * 1000;
    return { found, keptMs: Math.min(Math.max(asked, KEPT_MS.least), KEPT_MS.most) };
  }

  async function find(id: string): Promise<ClientDocument> {
    const before = kept.get(id);
    const found = before && before.until > now() ? before.found : await loadOnce(id);
    if ("refusal" in found) throw new DocumentRefused(found.refusal);
    return found.client;
  }

  async function loadOnce(id: string): Promise<Found> {
    const already = underWay.get(id);
    if (already) return already;
    if (underWay.size >= MAX_UNDER_WAY) throw new DocumentRefused("Too many documents are being fetched");
    const loading = load(id).finally(() => underWay.delete(id));
    underWay.set(id, loading);
    return loading;
  }

  return {
    /** Returns the client that the document at this URL describes. Throws DocumentRefused. */
    find,
    /** Stores the document of a client that a user lets in. */
    keep: async (id: string) => void (await upsertClient(pool, await find(id), new Date(now()))),
  };
}

export type ClientDocuments = ReturnType<typeof clientDocuments>;

function failed(refusal: string): { found: Found; keptMs: number } {
  return { found: { refusal }, keptMs: FAILED_MS };
}

/** Reads a document by the rules of registrations. It has to name its own URL, and to be that of a public client. */
function readDocument(body: Buffer, id: string, rules: RedirectRules): Found {
  const read = readMetadata(body, rules, id);
  if ("error" in read)
    return { refusal: `The client metadata document is not usable: ${read.errorDescription}` };
  const said: unknown = JSON.parse(body.toString());
  if (!isObject(said) || said.client_id !== id)
    return { refusal: "The client metadata document does not name its own URL as client_id" };
  if ((said.token_endpoint_auth_method ?? "none") !== "none" || "client_secret" in said)
    return { refusal: "The client metadata document has to ask for token_endpoint_auth_method none" };
  return { client: { client_id: id, ...read.client } };
}
