import { createHmac, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";

export type RoleName = "reader" | "editor" | "owner";

/**
 * The caller of an RPC, as the gateway or another service vouches for it. `role` is the caller's role in `accountId`;
 * both are absent when the path names no account.
 */
export type Caller = {
  kind: "user" | "machine" | "service" | "anonymous";
  id: string;
  tokenId?: string;
  accountId?: string;
  role?: RoleName;
  ip: string;
  /** The tool of MCP by which the caller does it. */
  tool?: string | undefined;
};

/** Header with the signed caller, between Berth's processes. */
export const CALLER_HEADER = "berth-caller";

const TTL_SECONDS = 60;
const RANK: Record<RoleName, number> = { reader: 1, editor: 2, owner: 3 };

/** Whether a role is at least as high as another. */
export function atLeast(role: RoleName | undefined, needed: RoleName): boolean {
  return role !== undefined && RANK[role] >= RANK[needed];
}

/** Returns the lower of a role and a cap, if there is one. What only a newer version knows is lower than all. */
export function capped(role: RoleName, cap: RoleName | undefined): RoleName {
  const rank = (name: RoleName) => RANK[name] ?? 0;
  return cap !== undefined && rank(cap) < rank(role) ? cap : role;
}

function mac(key: Buffer, body: string): Buffer {
  return createHmac("sha256", key).update(body).digest();
}

/** Signs a caller with the first key, for 60 seconds. */
export function signCaller(keys: Buffer[], caller: Caller, now = Date.now()): string {
  const claims = { ...caller, exp: Math.floor(now / 1000) + TTL_SECONDS };
  const body = Buffer.from(JSON.stringify(claims)).toString("base64url");
  return `${body}.${mac(keys[0]!, body).toString("base64url")}`;
}

const MAX_CACHED = 5_000;

/**
 * Returns a function that verifies a signed header and returns its caller; undefined for one that is forged, malformed
 * or older than 60 seconds. A gateway sends the same header with all requests of a caller for some seconds, so
 * verified ones are cached until they expire.
 */
export function createCallerVerifier(keys: Buffer[]): (header: string) => Caller | undefined {
  const cache = new LRUCache<string, { caller: Caller; until: number }>({ max: MAX_CACHED });
  return (header) => {
    const now = Date.now();
    const cached = cache.get(header);
    if (cached) return cached.until >= now ? cached.caller : undefined;
    const claims = verifySignature(keys, header);
    if (!claims || claims.exp * 1000 < now) return undefined;
    const { exp, ...caller } = claims;
    cache.set(header, { caller: Object.freeze(caller), until: exp * 1000 });
    return caller;
  };
}

function verifySignature(keys: Buffer[], header: string): (Caller & { exp: number }) | undefined {
  const [body, signature] = header.split(".");
  if (!body || !signature) return undefined;
  const given = Buffer.from(signature, "base64url");
  const genuine = keys.some((key) => given.length === 32 && timingSafeEqual(mac(key, body), given));
  return genuine ? JSON.parse(Buffer.from(body, "base64url").toString()) : undefined;
}
