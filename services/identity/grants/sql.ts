// Statements on grants: the access to accounts that users give to clients.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { RoleName } from "../../kit/rpc/caller-token.ts";

/** What a user grants to a client. */
export type Grant = {
  id: string;
  userId: string;
  clientId: string;
  accountId: string;
  role: Exclude<RoleName, "owner">;
};

export function insertGrant(
  db: Db,
  grant: Grant & { clientName: string; membershipId: string; grantedAt: Date; expiresAt: Date },
) {
  const text = `insert into oauth_grants
    (id, user_id, client_id, client_name, account_id, membership_id, role, granted_at, last_used_at, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9)`;
  const { id, userId, clientId, clientName, accountId, membershipId, role, grantedAt, expiresAt } = grant;
  return execute(db, "oauth_grant_insert", text, [
    ...[id, userId, clientId, clientName, accountId],
    ...[membershipId, role, grantedAt, expiresAt],
  ]);
}

export type GrantRow = {
  clientId: string;
  clientName: string;
  accountId: string;
  accountHandle: string;
  role: RoleName;
  grantedAt: Timestamp;
};

/** Lists a user's current grants, by client and account, newest first, each with its highest effective role. */
export function listGrants(db: Db, userId: string, now: Date) {
  return many<GrantRow>(
    db,
    "oauth_grants_list",
    `select g.client_id as "clientId", (array_agg(g.client_name order by g.granted_at desc))[1] as "clientName",
       g.account_id as "accountId", a.handle as "accountHandle",
       case when bool_or(g.role = 'editor') and m.role <> 'reader' then 'editor' else 'reader' end as role, max(g.granted_at) as "grantedAt"
     from oauth_grants g join accounts a on a.id = g.account_id
     join memberships m on m.user_id = g.user_id and m.account_id = g.account_id and m.id = g.membership_id
     where g.user_id = $1 and g.revoked_at is null and g.expires_at > $2
     group by g.client_id, g.account_id, a.handle, m.role order by max(g.granted_at) desc, g.client_id`,
    [userId, now],
  );
}

export type AccountGrantRow = {
  id: string;
  clientId: string;
  clientName: string;
  userId: string;
  displayName: string;
  role: RoleName;
  grantedAt: Timestamp;
  lastUsedAt: Timestamp;
};

type Grantee = { userId: string; clientId: string };

/**
 * Lists the current grants in an account, by client and member, newest first, each with its highest effective role;
 * with `of`, only those of one member to one client.
 */
export function listAccountGrants(
  db: Db,
  accountId: string,
  page: { now: Date; before: string | undefined; limit: number; of?: Grantee | undefined },
) {
  return many<AccountGrantRow>(
    db,
    "oauth_grants_of_account",
    `select max(g.id) as id, g.client_id as "clientId",
       (array_agg(g.client_name order by g.granted_at desc))[1] as "clientName",
       g.user_id as "userId", u.display_name as "displayName",
       case when bool_or(g.role = 'editor') and m.role <> 'reader' then 'editor' else 'reader' end as role,
       max(g.granted_at) as "grantedAt", max(g.last_used_at) as "lastUsedAt"
     from oauth_grants g join users u on u.id = g.user_id
     join memberships m on m.user_id = g.user_id and m.account_id = g.account_id and m.id = g.membership_id
     where g.account_id = $1 and g.revoked_at is null and g.expires_at > $2
       and ($5::text is null or (g.user_id = $5 and g.client_id = $6))
     group by g.client_id, g.user_id, u.display_name, m.role
     having $3::text is null or max(g.id) < $3 order by max(g.id) desc limit $4`,
    [accountId, page.now, page.before, page.limit, page.of?.userId, page.of?.clientId],
  );
}

/** Returns the user and the client of a grant in an account, even of a revoked one. */
export function findGrantee(db: Db, accountId: string, id: string) {
  return one<Grantee>(
    db,
    "oauth_grantee",
    `select user_id as "userId", client_id as "clientId" from oauth_grants where account_id = $1 and id = $2`,
    [accountId, id],
  );
}

/** Revokes the grants of a user to a client in an account, and returns them. */
export function revokeAccountGrants(db: Db, of: { accountId: string } & Grantee, now: Date) {
  const text = `update oauth_grants set revoked_at = $4, expires_at = least(expires_at, $4)
    where account_id = $1 and user_id = $2 and client_id = $3 and revoked_at is null ${REVOKED}`;
  return many<RevokedGrant>(db, "oauth_grants_revoke_in_account", text, [
    of.accountId,
    of.userId,
    of.clientId,
    now,
  ]);
}

export type RevokedGrant = {
  id: string;
  userId: string;
  clientId: string;
  clientName: string;
  accountId: string;
};

const REVOKED = `returning id, user_id as "userId", client_id as "clientId",
  client_name as "clientName", account_id as "accountId"`;

/** Revokes all grants of a user to a client except the newest `keep`, and returns them. */
export function revokeGrants(db: Db, of: { userId: string; clientId: string; keep: number }, now: Date) {
  const text = `update oauth_grants set revoked_at = $3, expires_at = least(expires_at, $3) where id in
    (select id from oauth_grants where user_id = $1 and client_id = $2 and revoked_at is null
     order by granted_at desc offset $4 for update) and revoked_at is null ${REVOKED}`;
  return many<RevokedGrant>(db, "oauth_grants_revoke", text, [of.userId, of.clientId, now, of.keep]);
}

/** Revokes all grants of a user, and returns them. */
export function revokeGrantsOf(db: Db, userId: string, now: Date) {
  const text = `update oauth_grants set revoked_at = $2, expires_at = least(expires_at, $2)
    where user_id = $1 and revoked_at is null ${REVOKED}`;
  return many<RevokedGrant>(db, "oauth_grants_revoke_of_user", text, [userId, now]);
}

/** Revokes all grants in an account, and returns them. */
export function revokeGrantsIn(db: Db, accountId: string, now: Date) {
  const text = `update oauth_grants set revoked_at = $2, expires_at = least(expires_at, $2)
    where account_id = $1 and revoked_at is null ${REVOKED}`;
  return many<RevokedGrant>(db, "oauth_grants_revoke_all_in_account", text, [accountId, now]);
}

/** Records that a token of the grant was issued or used, on the grant and its client; once a minute at most. */
export function recordUse(db: Db, id: string, now: Date) {
  const text = `with used as (
      update oauth_grants set last_used_at = $2 where id = $1 and last_used_at < $2::timestamptz - interval '1 minute')
    update oauth_clients c set last_used_at = $2 from oauth_grants g
    where g.id = $1 and c.id = g.client_id and c.last_used_at < $2::timestamptz - interval '1 minute'`;
  return execute(db, "oauth_grant_note_use", text, [id, now]);
}

/** Revokes up to `limit` grants that were last used before `before`, and returns them. */
export function revokeUnused(db: Db, before: Date, limit: number, now: Date) {
  const text = `update oauth_grants set revoked_at = $3, expires_at = least(expires_at, $3) where id = any(array(
       select id from oauth_grants where revoked_at is null and last_used_at < $1
     order by last_used_at limit $2 for update skip locked)) ${REVOKED}`;
  return many<RevokedGrant>(db, "oauth_grants_revoke_unused", text, [before, limit, now]);
}

/** Revokes a grant, and returns it; undefined when it is already revoked. */
export function revokeGrant(db: Db, id: string, now: Date) {
  const text = `update oauth_grants set revoked_at = $2, expires_at = least(expires_at, $2)
    where id = $1 and revoked_at is null ${REVOKED}`;
  return one<RevokedGrant>(db, "oauth_grant_revoke", text, [id, now]);
}

export type LiveGrant = Grant & { membership: RoleName | null };

/**
 * Returns a grant that is neither revoked nor expired, of a user who is not disabled, with the user's current role; null
 * when the membership in which it was given has ended.
 */
export function findLiveGrant(db: Db, id: string, now: Date) {
  return one<LiveGrant>(
    db,
    "oauth_grant_live",
    `select g.id, g.user_id as "userId", g.client_id as "clientId", g.account_id as "accountId", g.role,
       m.role as membership
     from oauth_grants g join users u on u.id = g.user_id and u.disabled_at is null
     left join memberships m on m.user_id = g.user_id and m.account_id = g.account_id and m.id = g.membership_id
     where g.id = $1 and g.revoked_at is null and g.expires_at > $2`,
    [id, now],
  );
}

/** Deletes up to `limit` grants that ended a month ago. Returns how many. */
export function deleteOldGrants(db: Db, now: Date, limit: number): Promise<number> {
  const text = `delete from oauth_grants where id = any(array(select id from oauth_grants
    where expires_at < $1::timestamptz - interval '30 days' order by expires_at limit $2 for update skip locked))`;
  return execute(db, "oauth_grants_sweep", text, [now, limit]);
}
