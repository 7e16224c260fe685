import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { CallerRecord } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { capped, type RoleName, signCaller } from "../../services/kit/rpc/caller-token.ts";

/** A caller whose token identity has confirmed. */
export type CachedCaller = {
  kind: "user" | "machine";
  userId: string;
  /** The session, the personal token, or the grant that a machine's token is of: it outlives each access token. */
  tokenId: string;
  /** The role in each account, as far as the token reaches. */
  roles: Map<string, RoleName>;
  /** The account that the token is bound to. */
  boundTo: string | undefined;
  /** The highest role that the token has anywhere. */
  roleCap: RoleName | undefined;
  /** Whether the token was issued for the tools of MCP, and for nothing else. */
  toolsOnly: boolean;
  /** When identity was asked, in milliseconds since 1970. */
  asOf: number;
  /** Signed caller headers by account and address. */
  signedHeaders: Map<string, string>;
};

/** What identity said about a token; without a caller the token is unknown, expired or revoked. */
export type CacheEntry = { caller: CachedCaller | undefined; until: number };

export type CallerCache = ReturnType<typeof createCallerCache>;

type Options = {
  /** Asks identity whose token this is; undefined for one that is unknown, expired or revoked. */
  findCaller: (token: string) => Promise<CallerRecord | undefined>;
  keys: Buffer[];
  ttlMs?: number;
  max?: number;
  now?: () => number;
};

/** Returns the key of a token in the cache: its SHA-256. */
export function cacheKeyOf(token: string): string {
  return hash("sha256", token, "base64");
}

const MAX_SIGNED_HEADERS = 1_000;

/**
 * Caches callers by the hash of their token: for 5 s, and never longer than the token is valid. Unknown tokens are
 * cached as well, so that guessing tokens costs identity little; apart from the callers, whom guesses must not displace.
 */
export function createCallerCache(options: Options) {
  const { findCaller, keys, ttlMs = 5_000, max = 10_000, now = Date.now } = options;
  const cache = new LRUCache<string, CacheEntry>({ max });
  const unknown = new LRUCache<string, CacheEntry>({ max });
  const inFlight = new Map<string, { result: Promise<CacheEntry>; epoch: number }>();
  const listeners = new Set<(userId: string | undefined) => void>();
  // Grows with every invalidation: the result of a lookup that began before one may be outdated.
  let epoch = 0;

  async function lookup(key: string, token: string): Promise<CacheEntry> {
    const asOf = now();
    const startedIn = epoch;
    const record = await findCaller(token);
    const expires = record?.expiresAt ? Number(record.expiresAt.seconds) * 1000 : Number.POSITIVE_INFINITY;
    const caller = record && expires > now() ? toCaller(record, asOf) : undefined;
    const entry = { caller, until: Math.min(asOf + ttlMs, caller ? expires : asOf + ttlMs) };
    if (startedIn === epoch) keep(key, entry);
    return entry;
  }

  function keep(key: string, entry: CacheEntry): void {
    const [into, from] = entry.caller ? [cache, unknown] : [unknown, cache];
    from.delete(key);
    into.set(key, entry);
  }

  function coalescedLookup(key: string, token: string): Promise<CacheEntry> {
    const pending = inFlight.get(key);
    if (pending?.epoch === epoch) return pending.result;
    const result = lookup(key, token).finally(() => {
      if (inFlight.get(key)?.result === result) inFlight.delete(key);
    });
    inFlight.set(key, { result, epoch });
    return result;
  }

  function notify(userId: string | undefined): void {
    for (const listener of listeners) listener(userId);
  }

  return {
    /** Returns the entry of a token, or undefined when identity has to be asked. */
    cached(key: string): CacheEntry | undefined {
      const entry = cache.get(key) ?? unknown.get(key);
      return entry && entry.until > now() ? entry : undefined;
    },
    /** Asks identity; concurrent lookups of one token share one call. Rejects when identity is unreachable. */
    lookup: coalescedLookup,
    /** Asks identity by a call that begins now or later, so that it sees every role granted before. */
    async refresh(key: string, token: string): Promise<CacheEntry> {
      await inFlight.get(key)?.result.catch(() => {});
      return coalescedLookup(key, token);
    },
    /** Drops all tokens of a user. */
    invalidateUser(userId: string): void {
      epoch++;
      for (const [key, entry] of [...cache.entries()]) if (entry.caller?.userId === userId) cache.delete(key);
      notify(userId);
    },
    invalidateAll(): void {
      epoch++;
      cache.clear();
      unknown.clear();
      notify(undefined);
    },
    /** Calls `listener` with each invalidated user, or with undefined when all are. */
    onInvalidate(listener: (userId: string | undefined) => void): void {
      listeners.add(listener);
    },
    /**
     * Returns the signed header of a caller in an account (or in none), by a tool or not; signs once per entry, account,
     * address and tool.
     */
    signedHeader(caller: CachedCaller, accountId: string | undefined, ip: string, tool?: string): string {
      const key = `${accountId ?? ""} ${ip} ${tool ?? ""}`;
      const signed = caller.signedHeaders.get(key);
      if (signed) return signed;
      const { kind, userId, tokenId } = caller;
      const role = accountId === undefined ? undefined : caller.roles.get(accountId);
      const header = signCaller(keys, { kind, id: userId, tokenId, accountId, role, ip, tool });
      if (caller.signedHeaders.size < MAX_SIGNED_HEADERS) caller.signedHeaders.set(key, header);
      return header;
    },
  };
}

function toCaller(record: CallerRecord, asOf: number): CachedCaller {
  const { userId, tokenId, accountId: boundTo } = record;
  const roleCap = record.roleCap as RoleName | undefined;
  const roles = new Map<string, RoleName>();
  for (const { accountId, role } of record.memberships)
    if (boundTo === undefined || boundTo === accountId)
      roles.set(accountId, capped(role as RoleName, roleCap));
  const kind = record.kind === "machine" ? "machine" : "user";
  const { toolsOnly } = record;
  return { kind, userId, tokenId, roles, boundTo, roleCap, toolsOnly, asOf, signedHeaders: new Map() };
}
