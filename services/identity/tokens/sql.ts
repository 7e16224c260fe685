// Statements on sessions and personal tokens.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { RoleName } from "../../kit/rpc/caller-token.ts";
import { lockUser } from "../users/sql.ts";

/** Absent columns are null, which a message treats as absent. */
type TokenRow = {
  id: string;
  name: string;
  lastFour: string;
  roleCap?: RoleName;
  accountId?: string;
  createdAt: Timestamp;
  expiresAt: Timestamp;
  lastUsedAt?: Timestamp;
};

export type NewToken = {
  id: string;
  userId: string;
  kind: "session" | "token";
  name: string;
  hash: Buffer;
  lastFour: string;
  roleCap?: string | undefined;
  accountId?: string | undefined;
  ip?: string | undefined;
  createdAt: Date;
  expiresAt: Date;
};

const TOKEN = `id, name, last_four as "lastFour", role_cap as "roleCap", account_id as "accountId",
  created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt"`;

/** Inserts a token; returns undefined when one with the same text exists. A new session counts as used. */
export function insertToken(db: Db, token: NewToken) {
  return one<TokenRow>(
    db,
    "token_insert",
    `insert into tokens (id, user_id, kind, name, hash, last_four, role_cap, account_id, created_at, expires_at,
       last_used_at, ip)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, case when $3 = 'session' then $9::timestamptz end, $11)
     on conflict (hash) do nothing returning ${TOKEN}`,
    [
      token.id,
      token.userId,
      token.kind,
      token.name,
      token.hash,
      token.lastFour,
      token.roleCap,
      token.accountId,
      token.createdAt,
      token.expiresAt,
      token.ip,
    ],
  );
}

/**
 * Returns the number of valid personal tokens of a user. Locks the user's row until the transaction ends, so that each of
 * several concurrent requests counts the tokens of those before it.
 */
export async function countTokens(tx: Tx, userId: string, now: Date): Promise<number> {
  await lockUser(tx, userId);
  const row = await one<{ held: number }>(
    tx,
    "tokens_count",
    `select count(*)::int as held from tokens
     where user_id = $1 and kind = 'token' and revoked_at is null and expires_at > $2`,
    [userId, now],
  );
  return row!.held;
}

/** Lists the valid personal tokens of a user, newest first. */
export function listTokens(
  db: Db,
  userId: string,
  page: { now: Date; before: string | undefined; limit: number },
) {
  return many<TokenRow>(
    db,
    "tokens_list",
    `select ${TOKEN} from tokens
     where user_id = $1 and kind = 'token' and revoked_at is null and expires_at > $2
       and ${isBelow("id", "$3")}
     order by id desc limit $4`,
    [userId, page.now, page.before, page.limit],
  );
}

type SessionRow = {
  id: string;
  ip?: string;
  createdAt: Timestamp;
  lastUsedAt: Timestamp;
  expiresAt: Timestamp;
};

/** Lists the valid sessions of a user, newest first; `expiresAt` is when a session ends if it is not used again. */
export function listSessions(
  db: Db,
  userId: string,
  page: { now: Date; idleSeconds: number; before: string | undefined; limit: number },
) {
  const idleEnd = "last_used_at + make_interval(secs => $3)";
  return many<SessionRow>(
    db,
    "sessions_list",
    `select id, ip, created_at as "createdAt", last_used_at as "lastUsedAt", least(expires_at, ${idleEnd}) as "expiresAt"
     from tokens
     where user_id = $1 and kind = 'session' and revoked_at is null and expires_at > $2 and ${idleEnd} > $2
       and ${isBelow("id", "$4")}
     order by id desc limit $5`,
    [userId, page.now, page.idleSeconds, page.before, page.limit],
  );
}

/** Revokes a session or token of a user. Returns undefined when there is none of this kind. */
export function revokeToken(
  db: Db,
  token: { id: string; userId: string; kind: "session" | "token"; now: Date },
) {
  return one<TokenRow>(
    db,
    "token_revoke",
    `update tokens set revoked_at = $4 where id = $1 and user_id = $2 and kind = $3 and revoked_at is null
     returning ${TOKEN}`,
    [token.id, token.userId, token.kind, token.now],
  );
}

/** Revokes the sessions of a user except `except`, with `personalToo` also personal tokens. Returns the numbers of both. */
export async function revokeTokens(
  db: Db,
  end: { userId: string; except: string | undefined; personalToo: boolean; now: Date },
) {
  const row = await one<{ revoked: number; personalTokens: number }>(
    db,
    "tokens_revoke",
    `with ended as (
       update tokens set revoked_at = $4
       where user_id = $1 and revoked_at is null and id is distinct from $2 and (kind = 'session' or $3)
         and expires_at > $4 returning kind)
     select count(*)::int as revoked, (count(*) filter (where kind = 'token'))::int as "personalTokens" from ended`,
    [end.userId, end.except, end.personalToo, end.now],
  );
  return row!;
}

/** Revokes the tokens that are bound to an account. Returns the number by user. */
export function revokeTokensOfAccount(db: Db, accountId: string, now: Date) {
  return many<{ userId: string; personalTokens: number }>(
    db,
    "tokens_revoke_of_account",
    `with ended as (
       update tokens set revoked_at = $2
       where account_id = $1 and revoked_at is null and expires_at > $2 returning user_id)
     select user_id as "userId", count(*)::int as "personalTokens" from ended group by user_id`,
    [accountId, now],
  );
}

// $1 is the current time, $2 the idle seconds after which a session ends.
const LIVE = `t.revoked_at is null and t.expires_at > $1::timestamptz
  and (t.kind = 'token' or t.last_used_at > $1::timestamptz - make_interval(secs => $2))
  and exists (select from users u where u.id = t.user_id and u.disabled_at is null)`;

/** Returns the session or token of an id while it is valid. */
export function findLiveToken(db: Db, token: { id: string; userId: string; now: Date; idleSeconds: number }) {
  return one<{ id: string; kind: "session" | "token"; roleCap?: RoleName; accountId?: string }>(
    db,
    "token_live",
    `select t.id, t.kind, t.role_cap as "roleCap", t.account_id as "accountId" from tokens t
     where t.id = $3 and t.user_id = $4 and ${LIVE}`,
    [token.now, token.idleSeconds, token.id, token.userId],
  );
}

type CallerRow = {
  userId: string;
  tokenId: string;
  kind: "session" | "token";
  roleCap?: string;
  accountId?: string;
  expiresAt: Timestamp;
  memberships: { accountId: string; role: RoleName }[];
};

/**
 * Returns the user of a valid token, and records its use unless a use was recorded within the last minute.
 * `expiresAt` of a session is when it ends if it is not used again; a token bound to an account has only that
 * membership.
 */
export function findCallerByToken(db: Db, lookup: { hash: Buffer; now: Date; idleSeconds: number }) {
  return one<CallerRow>(
    db,
    "token_lookup",
    `with found as (
       select t.*, coalesce(t.last_used_at <= $1::timestamptz - interval '1 minute', true) as stale
       from tokens t where t.hash = $3 and ${LIVE}
     ), used as (
       update tokens t set last_used_at = $1 from found f where t.id = f.id and f.stale
     )
     select f.user_id as "userId", f.id as "tokenId", f.kind, f.role_cap as "roleCap", f.account_id as "accountId",
       case when f.kind = 'token' then f.expires_at
         else least(f.expires_at,
           case when f.stale then $1::timestamptz else f.last_used_at end + make_interval(secs => $2)) end
         as "expiresAt",
       (select coalesce(json_agg(json_build_object('accountId', m.account_id, 'role', m.role)), '[]')
        from memberships m where m.user_id = f.user_id and (f.account_id is null or f.account_id = m.account_id))
         as memberships
     from found f`,
    [lookup.now, lookup.idleSeconds, lookup.hash],
  );
}

/** Returns the token of this hash, valid or not. */
export function findTokenByHash(db: Db, hash: Buffer) {
  const text = "select id, revoked_at is not null as revoked from tokens where hash = $1";
  return one<{ id: string; revoked: boolean }>(db, "token_by_hash", text, [hash]);
}

/** Extends a token; an earlier time changes nothing. */
export function extendToken(db: Db, id: string, expiresAt: Date) {
  const text = "update tokens set expires_at = $2 where id = $1 and expires_at < $2";
  return execute(db, "token_extend", text, [id, expiresAt]);
}

/** Deletes sessions a day after they ended. */
export function deleteEndedSessions(db: Db, now: Date) {
  return execute(
    db,
    "sessions_delete_ended",
    "delete from tokens where kind = 'session' and expires_at < $1::timestamptz - interval '1 day'",
    [now],
  );
}
