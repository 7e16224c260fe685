import { createHmac, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";

export type RoleName = "reader" | "editor" | "owner";

/**
 * Who asks, as the gateway (or another service) vouches for it. `role` is the caller's role in
 * `accountId`; both are absent where the path names no account.
 */
export type Caller = {
  kind: "user" | "machine" | "service" | "anonymous";
  id: string;
  tokenId?: string;
  accountId?: string;
  role?: RoleName;
  ip: string;
};

/** Header that carries the signed caller between Berth's processes. */
export const CALLER_HEADER = "berth-caller";

const TTL_SECONDS = 60;
const RANK: Record<RoleName, number> = { reader: 1, editor: 2, owner: 3 };

/** Whether a role is at least another. */
export function atLeast(role: RoleName | undefined, needed: RoleName): boolean {
  return role !== undefined && RANK[role] >= RANK[needed];
}

/** The weaker of two roles; an absent cap does not cap. */
export function capped(role: RoleName, cap: RoleName | undefined): RoleName {
  return cap !== undefined && RANK[cap] < RANK[role] ? cap : role;
}

function mac(key: Buffer, body: string): Buffer {
  return createHmac("sha256", key).update(body).digest();
}

/** Signs a caller for 60 seconds with the first key. */
export function signCaller(keys: Buffer[], caller: Caller, now = Date.now()): string {
  const claims = { ...caller, exp: Math.floor(now / 1000) + TTL_SECONDS };
  const body = Buffer.from(JSON.stringify(claims)).toString("base64url");
  return `${body}.${mac(keys[0]!, body).toString("base64url")}`;
}

/** The caller of a signed header, or undefined when it is forged, malformed or older than 60 seconds. */
export function verifyCaller(keys: Buffer[], header: string, now = Date.now()): Caller | undefined {
  const claims = genuineClaims(keys, header);
  if (!claims || claims.exp * 1000 < now) return undefined;
  const { exp: _, ...caller } = claims;
  return caller;
}

const REMEMBERED = 5_000;

/**
 * As `verifyCaller`, for many requests: a gateway sends one header with all requests of a caller for some
 * seconds, so genuine ones are remembered until they expire.
 */
export function callerVerifier(keys: Buffer[]): (header: string) => Caller | undefined {
  const known = new LRUCache<string, { caller: Caller; until: number }>({ max: REMEMBERED });
  return (header) => {
    const now = Date.now();
    const before = known.get(header);
    if (before) return before.until >= now ? before.caller : undefined;
    const claims = genuineClaims(keys, header);
    if (!claims || claims.exp * 1000 < now) return undefined;
    const { exp, ...caller } = claims;
    known.set(header, { caller: Object.freeze(caller), until: exp * 1000 });
    return caller;
  };
}

function genuineClaims(keys: Buffer[], header: string): (Caller & { exp: number }) | undefined {
  const [body, signature] = header.split(".");
  if (!body || !signature) return undefined;
  const given = Buffer.from(signature, "base64url");
  const genuine = keys.some((key) => given.length === 32 && timingSafeEqual(mac(key, body), given));
  return genuine ? JSON.parse(Buffer.from(body, "base64url").toString()) : undefined;
}
