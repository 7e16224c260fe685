// Statements on accounts and their members.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { RoleName } from "../../kit/rpc/caller-token.ts";

export type AccountRow = {
  id: string;
  handle: string;
  displayName: string;
  createdAt: Timestamp;
  /** Null until billing has set it. */
  tier: string | null;
  graceUntil: Timestamp | null;
  suspended: string | null;
};
type MyAccountRow = Omit<AccountRow, "tier" | "graceUntil" | "suspended"> & { myRole: RoleName };
/** A member; `id` is the membership's, the sort key of the list. */
export type MemberRow = {
  id: string;
  userId: string;
  email: string;
  displayName: string;
  role: RoleName;
  createdAt: Timestamp;
};

const ACCOUNT = `id, handle, display_name as "displayName", created_at as "createdAt", tier,
  grace_until as "graceUntil", suspended`;

/** Inserts an account; returns undefined when the handle is taken. */
export function insertAccount(db: Db, account: { id: string; handle: string; displayName: string }) {
  return one<AccountRow>(
    db,
    "account_insert",
    `insert into accounts (id, handle, display_name) values ($1, $2, $3)
     on conflict (handle) do nothing returning ${ACCOUNT}`,
    [account.id, account.handle, account.displayName],
  );
}

export function findAccount(db: Db, id: string) {
  return one<AccountRow>(
    db,
    "account_find",
    `select ${ACCOUNT} from accounts where id = $1 and deleted_at is null`,
    [id],
  );
}

/** Changes handle and display name; throws the violation of `accounts_handle_key` when the handle is taken. */
export function updateAccount(
  db: Db,
  id: string,
  patch: { handle?: string | undefined; displayName?: string | undefined },
) {
  return one<AccountRow>(
    db,
    "account_update",
    `update accounts set handle = coalesce($2, handle), display_name = coalesce($3, display_name)
     where id = $1 returning ${ACCOUNT}`,
    [id, patch.handle, patch.displayName],
  );
}

/** Lists the accounts of a user, newest first; only `accountId` if it is given. */
export function listAccountsByUser(
  db: Db,
  user: { userId: string; accountId: string | undefined },
  page: { before: string | undefined; limit: number | undefined },
) {
  return many<MyAccountRow>(
    db,
    "accounts_list_by_user",
    `select a.id, a.handle, a.display_name as "displayName", m.role as "myRole", a.created_at as "createdAt"
     from memberships m join accounts a on a.id = m.account_id
     where m.user_id = $1 and ($2::text is null or m.account_id = $2) and ${isBelow("m.account_id", "$3")}
     order by m.account_id desc limit $4`,
    [user.userId, user.accountId, page.before, page.limit],
  );
}

/** Locks an account until the transaction ends, against other changes of its owners and new members. */
export function lockAccount(db: Db, id: string) {
  return execute(db, "account_lock", "select 1 from accounts where id = $1 for no key update", [id]);
}

/** Sets the account's plan, also one that only a newer version knows, unless the same or a newer revision is set. */
export function setTier(db: Db, accountId: string, tier: string, revision: bigint) {
  return execute(
    db,
    "account_tier_set",
    `update accounts set tier = $2, tier_revision = $3
     where id = $1 and (tier is null or tier_revision < $3)`,
    [accountId, tier, revision],
  );
}

/** Records whether the account's services may run beyond the allowance, unless the same or a newer revision is recorded. */
export function setSuspension(
  db: Db,
  accountId: string,
  suspension: { reason: string | undefined; graceUntil: Date | undefined; revision: bigint },
) {
  return execute(
    db,
    "account_suspension_set",
    `update accounts set suspended = $2, grace_until = $3, suspension_revision = $4
     where id = $1 and suspension_revision < $4`,
    [accountId, suspension.reason ?? null, suspension.graceUntil ?? null, suspension.revision],
  );
}

/** Returns the account's plan; null until billing has set it. */
export async function findTier(db: Db, accountId: string): Promise<string | null | undefined> {
  const text = "select tier from accounts where id = $1";
  return (await one<{ tier: string | null }>(db, "account_tier", text, [accountId]))?.tier;
}

export async function countMembers(db: Db, accountId: string): Promise<number> {
  const text = "select count(*) as n from memberships where account_id = $1";
  return (await one<{ n: number }>(db, "members_count", text, [accountId]))!.n;
}

/** Inserts a membership; returns 0 when it exists, or user or account is deleted. The caller holds the account's lock. */
export function insertMembership(
  db: Db,
  member: { id: string; accountId: string; userId: string; role: string },
) {
  return execute(
    db,
    "membership_insert",
    `insert into memberships (id, account_id, user_id, role)
     select $1, $2, id, $4 from users where id = $3 and deleted_at is null
       and exists (select from accounts where id = $2 and deleted_at is null) for key share
     on conflict (account_id, user_id) do nothing`,
    [member.id, member.accountId, member.userId, member.role],
  );
}

const MEMBER = `select m.id, m.user_id as "userId", u.email, u.display_name as "displayName", m.role,
  m.created_at as "createdAt" from memberships m join users u on u.id = m.user_id`;

export function findMember(db: Db, accountId: string, userId: string) {
  return one<MemberRow>(db, "member_find", `${MEMBER} where m.account_id = $1 and m.user_id = $2`, [
    accountId,
    userId,
  ]);
}

export function findMemberByEmail(db: Db, accountId: string, email: string) {
  return one<MemberRow>(db, "member_find_by_email", `${MEMBER} where m.account_id = $1 and u.email = $2`, [
    accountId,
    email,
  ]);
}

/** Lists the members of an account, newest first. */
export function listMembers(db: Db, accountId: string, page: { before: string | undefined; limit: number }) {
  return many<MemberRow>(
    db,
    "members_list",
    `${MEMBER} where m.account_id = $1 and ${isBelow("m.id", "$2")} order by m.id desc limit $3`,
    [accountId, page.before, page.limit],
  );
}

/** A user who can be notified. */
export type RecipientRow = {
  userId: string;
  email: string;
  displayName: string;
  role: string;
  emailVerified: boolean;
};

const RECIPIENT = `u.id as "userId", u.email, u.display_name as "displayName",
  u.email_verified_at is not null as "emailVerified"`;

/** Lists the members of an account who can sign in. */
export function listMemberRecipients(db: Db, accountId: string) {
  return many<RecipientRow>(
    db,
    "recipients_of_account",
    `select ${RECIPIENT}, m.role from memberships m join users u on u.id = m.user_id
     where m.account_id = $1 and u.disabled_at is null order by u.id`,
    [accountId],
  );
}

/** Lists those of these users who can sign in. */
export function listUserRecipients(db: Db, userIds: string[]) {
  return many<RecipientRow>(
    db,
    "recipients_by_id",
    `select ${RECIPIENT}, '' as role from users u where u.id = any($1) and u.disabled_at is null order by u.id`,
    [userIds],
  );
}

/** Returns the number of other owners of the account who can sign in. */
export async function countOtherOwners(db: Db, accountId: string, userId: string): Promise<number> {
  const row = await one<{ n: number }>(
    db,
    "other_owners",
    `select count(*) as n from memberships m join users u on u.id = m.user_id
     where m.account_id = $1 and m.user_id <> $2 and m.role = 'owner' and u.disabled_at is null`,
    [accountId, userId],
  );
  return row?.n ?? 0;
}

export function updateRole(db: Db, accountId: string, userId: string, role: string) {
  return execute(
    db,
    "membership_update_role",
    "update memberships set role = $3 where account_id = $1 and user_id = $2",
    [accountId, userId, role],
  );
}

export function deleteMembership(db: Db, accountId: string, userId: string) {
  return execute(db, "membership_delete", "delete from memberships where account_id = $1 and user_id = $2", [
    accountId,
    userId,
  ]);
}

/** Locks the accounts of a user like `lockAccount`, always in the same order. Returns their ids. */
export async function lockAccountsOf(db: Db, userId: string): Promise<string[]> {
  const locked = await many<{ id: string }>(
    db,
    "accounts_lock_of_user",
    `select a.id from accounts a join memberships m on m.account_id = a.id
     where m.user_id = $1 order by a.id for no key update of a`,
    [userId],
  );
  return locked.map(({ id }) => id);
}

/** Lists the accounts of which this user is the only owner who can sign in, by handle. */
export function listSolelyOwned(db: Db, userId: string) {
  return many<{ id: string; handle: string }>(
    db,
    "accounts_owned_alone",
    `select a.id, a.handle from memberships m join accounts a on a.id = m.account_id
     where m.user_id = $1 and m.role = 'owner' and not exists (
       select from memberships o join users u on u.id = o.user_id
       where o.account_id = a.id and o.user_id <> $1 and o.role = 'owner' and u.disabled_at is null)
     order by a.handle`,
    [userId],
  );
}

/** Deletes all memberships of a user, and returns them. */
export function deleteMembershipsOf(db: Db, userId: string) {
  return many<{ accountId: string; role: RoleName }>(
    db,
    "memberships_delete_of_user",
    `delete from memberships where user_id = $1 returning account_id as "accountId", role`,
    [userId],
  );
}

/** Returns the handle of an account; for a deleted one its former handle, which another account may have now. */
export async function findHandle(db: Db, id: string): Promise<string | undefined> {
  const text = "select coalesce(former_handle, handle) as handle from accounts where id = $1";
  return (await one<{ handle: string }>(db, "account_handle", text, [id]))?.handle;
}

/** Deletes an account: its row stays, with its id as handle. Returns undefined when it is already deleted. */
export function deleteAccount(db: Db, id: string, now: Date) {
  return one<{ handle: string }>(
    db,
    "account_delete",
    `update accounts set former_handle = handle, handle = id, deleted_at = $2
     where id = $1 and deleted_at is null returning former_handle as handle`,
    [id, now],
  );
}

/** Deletes the memberships and invitations of an account. Returns the ids of the former members. */
export async function deleteMembershipsIn(db: Db, accountId: string): Promise<string[]> {
  const deleted = await many<{ userId: string }>(
    db,
    "account_delete_members",
    `with invited as (delete from invitations where account_id = $1)
     delete from memberships where account_id = $1 returning user_id as "userId"`,
    [accountId],
  );
  return deleted.map(({ userId }) => userId);
}
