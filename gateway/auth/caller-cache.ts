import { hash } from "node:crypto";
import type { CallerRecord } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { capped, type RoleName, signCaller } from "../../services/kit/rpc/caller-token.ts";

/** A caller whose token identity has vouched for. */
export type Known = {
  kind: "user" | "machine";
  userId: string;
  tokenId: string;
  /** The role in each account, as far as the token reaches. */
  roles: Map<string, RoleName>;
  /** The account that the token is bound to. */
  boundTo: string | undefined;
  /** When identity was asked, in milliseconds since 1970. */
  asOf: number;
  /** Signed headers by account and address. */
  signed: Map<string, string>;
};

/** What is remembered of a token; without a caller it is unknown, expired or revoked. */
export type Entry = { known: Known | undefined; until: number };

export type Callers = ReturnType<typeof createCallers>;

type Options = {
  /** Asks identity who a token is; undefined for one that is unknown, expired or revoked. */
  lookup: (tokenHash: Uint8Array) => Promise<CallerRecord | undefined>;
  keys: Buffer[];
  ttlMs?: number;
  max?: number;
  now?: () => number;
};

/** The key under which a token is remembered: its SHA-256. */
export function keyOf(token: string): string {
  return hash("sha256", token, "base64");
}

/**
 * The callers of the last seconds. An entry lives 5 s and never longer than its token; unknown tokens
 * are remembered as well, so that trying them costs identity little.
 */
export function createCallers(options: Options) {
  const { lookup, keys, ttlMs = 5_000, max = 10_000, now = Date.now } = options;
  const cache = new Map<string, Entry>();
  const flights = new Map<string, { answer: Promise<Entry>; epoch: number }>();
  const listeners = new Set<(userId: string | undefined) => void>();
  // Grows with everything forgotten: an answer to an older question may hold just that.
  let epoch = 0;

  async function ask(key: string): Promise<Entry> {
    const asOf = now();
    const begun = epoch;
    const record = await lookup(Buffer.from(key, "base64"));
    const expires = record?.expiresAt ? Number(record.expiresAt.seconds) * 1000 : Number.POSITIVE_INFINITY;
    const known = record && expires > now() ? toKnown(record, asOf) : undefined;
    const entry = { known, until: Math.min(asOf + ttlMs, known ? expires : asOf + ttlMs) };
    if (begun === epoch) {
      cache.delete(key);
      if (cache.size >= max) cache.delete(cache.keys().next().value!);
      cache.set(key, entry);
    }
    return entry;
  }

  function fly(key: string): Promise<Entry> {
    const answer = ask(key).finally(() => {
      if (flights.get(key)?.answer === answer) flights.delete(key);
    });
    flights.set(key, { answer, epoch });
    return answer;
  }

  function join(key: string): Promise<Entry> {
    const flight = flights.get(key);
    return flight?.epoch === epoch ? flight.answer : fly(key);
  }

  return {
    /** What is remembered of a token, if identity need not be asked. */
    cached(key: string): Entry | undefined {
      const entry = cache.get(key);
      return entry && entry.until > now() ? entry : undefined;
    },
    /** Asks identity; concurrent questions about one token are one. */
    find: join,
    /** Asks identity with a question that begins now or later: what was granted before now is seen. */
    async refresh(key: string): Promise<Entry> {
      await flights.get(key)?.answer.catch(() => {});
      return join(key);
    },
    /** Forgets all tokens of a user. */
    forgetUser(userId: string): void {
      epoch++;
      for (const [key, entry] of cache) if (entry.known?.userId === userId) cache.delete(key);
      for (const hear of listeners) hear(userId);
    },
    forgetAll(): void {
      epoch++;
      cache.clear();
      for (const hear of listeners) hear(undefined);
    },
    /** Calls back when something is forgotten of a user, or of all. */
    onForget(listener: (userId: string | undefined) => void): void {
      listeners.add(listener);
    },
    /** The signed header of a caller in an account (or none), made once per entry and address. */
    header(known: Known, accountId: string | undefined, ip: string): string {
      const key = `${accountId ?? ""} ${ip}`;
      const made = known.signed.get(key);
      if (made) return made;
      const { kind, userId, tokenId } = known;
      const role = accountId === undefined ? undefined : known.roles.get(accountId);
      const header = signCaller(keys, { kind, id: userId, tokenId, accountId, role, ip });
      if (known.signed.size < 1_000) known.signed.set(key, header);
      return header;
    },
  };
}

function toKnown(record: CallerRecord, asOf: number): Known {
  const { userId, tokenId, accountId: boundTo } = record;
  const roles = new Map<string, RoleName>();
  for (const { accountId, role } of record.memberships)
    if (boundTo === undefined || boundTo === accountId)
      roles.set(accountId, capped(role as RoleName, record.roleCap as RoleName | undefined));
  return { kind: "user", userId, tokenId, roles, boundTo, asOf, signed: new Map() };
}
