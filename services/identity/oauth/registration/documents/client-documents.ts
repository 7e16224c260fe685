import { LRUCache } from "lru-cache";
import type { Pool } from "../../../../kit/postgres/db.ts";
import { isObject } from "../../../../kit/process/config.ts";
import type { ClientDocument } from "../../port.ts";
import { type MetadataRules, readMetadata } from "../client-metadata.ts";
import { isPublicName } from "../host-names.ts";
import { findClient, upsertClient } from "../sql.ts";
import { DocumentTooLarge, type FetchDocument } from "./fetch-document.ts";

const MAX_ID = 512;
const MAX_CACHED = 500;
const MAX_CONCURRENT = 50;
const MINUTE_MS = 60_000;
/** How long a document is cached: by default, and within which bounds. */
const CACHE_MS = { fallback: 5 * MINUTE_MS, min: MINUTE_MS, max: 24 * 60 * MINUTE_MS };
/** How long a failed fetch is not retried. */
const RETRY_MS = MINUTE_MS / 2;

/** The document of a client cannot be fetched or used; the message says why. */
export class DocumentRefused extends Error {}

type Found = { client: ClientDocument } | { refusal: string };

/** Returns whether a client id is the URL of a document that may be fetched. */
export function isDocumentUrl(id: string): boolean {
  if (id.length > MAX_ID || !/^https:\/\/[\w.~:/?[\]@!$&'()+,;=%-]+$/.test(id) || !URL.canParse(id))
    return false;
  const url = new URL(id);
  // Only the normalized spelling of a URL is accepted, so without dot segments.
  if (url.href !== id || url.pathname === "/" || url.username !== "" || url.password !== "") return false;
  return isPublicName(url.hostname);
}

/**
 * Clients described by a document on the web (docs/oauth.md#client-id-metadata-documents). The same rules apply as for a
 * registration. Documents are cached in memory; that of an authorized client is stored as well, and used while its host
 * cannot be reached.
 */
export function clientDocuments(deps: {
  pool: Pool;
  rules: MetadataRules;
  now: () => number;
  fetchDocument: FetchDocument;
}) {
  const { pool, rules, now, fetchDocument } = deps;
  const cache = new LRUCache<string, { found: Found; until: number }>({ max: MAX_CACHED });
  const loads = new Map<string, Promise<Found>>();

  async function load(id: string): Promise<Found> {
    const { found, cacheMs } = await read(id);
    cache.set(id, { found, until: now() + cacheMs });
    return found;
  }

  async function read(id: string): Promise<{ found: Found; cacheMs: number }> {
    const fetched = await fetchDocument(new URL(id)).catch((error: unknown) => error as Error);
    if (fetched instanceof DocumentTooLarge) return failed("The client metadata document is too large");
    if (fetched instanceof Error || fetched.status >= 500) {
      const stored = await findClient(pool, id);
      if (stored) return { found: { client: stored }, cacheMs: CACHE_MS.min };
      return failed("The client metadata document could not be fetched");
    }
    if (fetched.status !== 200) return failed(`The client metadata document answers ${fetched.status}`);
    const found = readDocument(fetched.body, id, rules);
    if ("refusal" in found) return failed(found.refusal);
    const requested = fetched.maxAgeSeconds === undefined ? CACHE_MS.fallback : fetched.maxAgeSeconds * 1000;
    return { found, cacheMs: Math.min(Math.max(requested, CACHE_MS.min), CACHE_MS.max) };
  }

  async function find(id: string): Promise<ClientDocument> {
    const cached = cache.get(id);
    const found = cached && cached.until > now() ? cached.found : await loadOnce(id);
    if ("refusal" in found) throw new DocumentRefused(found.refusal);
    return found.client;
  }

  async function loadOnce(id: string): Promise<Found> {
    const running = loads.get(id);
    if (running) return running;
    if (loads.size >= MAX_CONCURRENT) throw new DocumentRefused("Too many documents are being fetched");
    const loading = load(id).finally(() => loads.delete(id));
    loads.set(id, loading);
    return loading;
  }

  return {
    /** Returns the client that the document at this URL describes. Throws DocumentRefused. */
    find,
    /** Stores the document of a client that a user authorizes. */
    store: async (id: string) => void (await upsertClient(pool, await find(id), new Date(now()))),
  };
}

export type ClientDocuments = ReturnType<typeof clientDocuments>;

function failed(refusal: string): { found: Found; cacheMs: number } {
  return { found: { refusal }, cacheMs: RETRY_MS };
}

/** Validates a document by the rules of registrations. It must name its own URL, and describe a public client. */
function readDocument(body: Buffer, id: string, rules: MetadataRules): Found {
  const read = readMetadata(body, rules, id);
  if ("error" in read)
    return { refusal: `The client metadata document is not usable: ${read.errorDescription}` };
  const document: unknown = JSON.parse(body.toString());
  if (!isObject(document) || document.client_id !== id)
    return { refusal: "The client metadata document does not name its own URL as client_id" };
  if ((document.token_endpoint_auth_method ?? "none") !== "none" || "client_secret" in document)
    return { refusal: "The client metadata document has to ask for token_endpoint_auth_method none" };
  return { client: { client_id: id, ...read.client } };
}
