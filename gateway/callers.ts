import { hash } from "node:crypto";
import type { CallerRecord } from "../proto/gen/berth/identity/v1/identity_pb.ts";
import { capped, type RoleName, signCaller } from "../services/kit/caller.ts";

/** A caller whose token identity has vouched for. */
export type Known = {
  userId: string;
  tokenId: string;
  /** The role in each account, as far as the token reaches. */
  roles: Map<string, RoleName>;
  /** The account that the token is bound to. */
  boundTo: string | undefined;
  kind: "user" | "machine";
  /** When it was looked up, and until when it may be used: milliseconds of the process's clock. */
  asOf: number;
  until: number;
  /** Signed headers by account and address. */
  signed: Map<string, string>;
};

export type Callers = ReturnType<typeof createCallers>;

type Options = {
  /** Asks identity who a token is; undefined for one that is unknown, expired or revoked. */
  lookup: (tokenHash: Uint8Array) => Promise<CallerRecord | undefined>;
  keys: Buffer[];
  ttlMs?: number;
  max?: number;
  now?: () => number;
};

type Flight = { answer: Promise<Known | undefined>; startedAt: number };

/**
 * The callers of the last seconds, by the SHA-256 of their token. An entry lives 5 s and never longer
 * than its token; unknown tokens are remembered as well, so that trying them costs identity little.
 */
export function createCallers(options: Options) {
  const { lookup, keys, ttlMs = 5_000, max = 10_000, now = Date.now } = options;
  const cache = new Map<string, Known | { until: number; userId?: undefined }>();
  const flights = new Map<string, Flight>();
  let epoch = 0;

  async function ask(key: string): Promise<Known | undefined> {
    const asOf = now();
    const begun = epoch;
    const record = await lookup(Buffer.from(key, "base64"));
    const known = record && toKnown(record, asOf, ttlMs);
    // What was forgotten meanwhile may be what this answer says.
    if (begun === epoch) {
      cache.delete(key);
      if (cache.size >= max) cache.delete(cache.keys().next().value!);
      cache.set(key, known ?? { until: asOf + ttlMs });
    }
    return known && known.until > now() ? known : undefined;
  }

  function fly(key: string): Promise<Known | undefined> {
    const answer = ask(key).finally(() => {
      if (flights.get(key)?.answer === answer) flights.delete(key);
    });
    flights.set(key, { answer, startedAt: epoch });
    return answer;
  }

  return {
    /** The cached caller of a token: undefined for an unknown token, null when identity has to be asked. */
    cached(key: string): Known | undefined | null {
      const found = cache.get(key);
      if (!found || found.until <= now()) return null;
      return found.userId === undefined ? undefined : (found as Known);
    },
    /** Asks identity; concurrent questions about one token are one. */
    find: (key: string): Promise<Known | undefined> => flights.get(key)?.answer ?? fly(key),
    /** Asks identity with a question that begins now or later: what was granted before it is seen. */
    async refresh(key: string): Promise<Known | undefined> {
      const under = flights.get(key);
      if (!under) return fly(key);
      await under.answer.catch(() => {});
      return flights.get(key)?.answer ?? fly(key);
    },
    /** Forgets all tokens of a user, here and of questions under way. */
    forgetUser(userId: string): void {
      epoch++;
      for (const [key, entry] of cache) if (entry.userId === userId) cache.delete(key);
    },
    forgetAll(): void {
      epoch++;
      cache.clear();
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

/** The key under which a token is remembered. */
export function keyOf(token: string): string {
  return hash("sha256", token, "base64");
}

function toKnown(record: CallerRecord, asOf: number, ttlMs: number): Known {
  const roles = new Map<string, RoleName>();
  for (const { accountId, role } of record.memberships)
    if (record.accountId === undefined || record.accountId === accountId)
      roles.set(accountId, capped(role as RoleName, record.roleCap as RoleName | undefined));
  const expires = record.expiresAt ? Number(record.expiresAt.seconds) * 1000 : asOf + ttlMs;
  return {
    userId: record.userId,
    tokenId: record.tokenId,
    roles,
    boundTo: record.accountId,
    kind: "user",
    asOf,
    until: Math.min(asOf + ttlMs, expires),
    signed: new Map(),
  };
}
