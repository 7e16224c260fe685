// Statements on invitations, which are stored until they are answered, withdrawn, or expired for 30 days.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { RoleName } from "../../kit/rpc/caller-token.ts";

type InvitationRow = {
  id: string;
  email: string;
  role: RoleName;
  status: "invited";
  invitedBy: string;
  createdAt: Timestamp;
  expiresAt: Timestamp;
};

type NewInvitation = {
  id: string;
  accountId: string;
  email: string;
  role: string;
  invitedBy: string;
  nonce: string;
  hash: Buffer;
  createdAt: Date;
  expiresAt: Date;
};

/** Inserts an invitation; returns undefined when the e-mail has a valid one to this account. */
export function insertInvitation(db: Db, invitation: NewInvitation) {
  return one<{ id: string }>(
    db,
    "invitation_insert",
    `insert into invitations as i (id, account_id, email, role, invited_by, nonce, token_hash, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     on conflict (account_id, email) do update set id = excluded.id, role = excluded.role,
       invited_by = excluded.invited_by, nonce = excluded.nonce, token_hash = excluded.token_hash,
       created_at = excluded.created_at, expires_at = excluded.expires_at
     where i.expires_at <= excluded.created_at
     returning id`,
    [
      invitation.id,
      invitation.accountId,
      invitation.email,
      invitation.role,
      invitation.invitedBy,
      invitation.nonce,
      invitation.hash,
      invitation.createdAt,
      invitation.expiresAt,
    ],
  );
}

const INVITATION = `select i.id, i.email, i.role, 'invited' as status, u.email as "invitedBy",
  i.created_at as "createdAt", i.expires_at as "expiresAt" from invitations i join users u on u.id = i.invited_by`;

export function findInvitation(db: Db, accountId: string, id: string) {
  const text = `${INVITATION} where i.account_id = $1 and i.id = $2`;
  return one<InvitationRow>(db, "invitation_find", text, [accountId, id]);
}

/** Lists the invitations of an account, newest first. */
export function listInvitations(
  db: Db,
  accountId: string,
  page: { before: string | undefined; limit: number },
) {
  return many<InvitationRow>(
    db,
    "invitations_list",
    `${INVITATION} where i.account_id = $1 and ${isBelow("i.id", "$2")} order by i.id desc limit $3`,
    [accountId, page.before, page.limit],
  );
}

/** Returns the number of valid invitations of an account. */
export async function countOpenInvitations(db: Db, accountId: string, now: Date): Promise<number> {
  const text = "select count(*) as n from invitations where account_id = $1 and expires_at > $2";
  return (await one<{ n: number }>(db, "invitations_count_open", text, [accountId, now]))!.n;
}

/** Replaces the link of an invitation. Returns undefined when there is no such invitation. */
export function renewInvitation(
  db: Db,
  invitation: Pick<NewInvitation, "id" | "accountId" | "nonce" | "hash" | "expiresAt">,
) {
  return one<{ email: string }>(
    db,
    "invitation_renew",
    `update invitations set nonce = $3, token_hash = $4, expires_at = $5 where account_id = $1 and id = $2
     returning email`,
    [invitation.accountId, invitation.id, invitation.nonce, invitation.hash, invitation.expiresAt],
  );
}

export function deleteInvitation(db: Db, accountId: string, id: string) {
  const text = "delete from invitations where account_id = $1 and id = $2 returning email, role";
  return one<{ email: string; role: RoleName }>(db, "invitation_delete", text, [accountId, id]);
}

/** Returns the data of an invitation's mail; undefined when it was answered, withdrawn or has expired. */
export function findInvitationForMail(db: Db, id: string, now: Date) {
  return one<{
    nonce: string;
    hash: Buffer;
    handle: string;
    role: RoleName;
    invitedBy: string;
    expiresAt: Timestamp;
  }>(
    db,
    "invitation_for_mail",
    `select i.nonce, i.token_hash as hash, a.handle, i.role, u.email as "invitedBy", i.expires_at as "expiresAt"
     from invitations i join accounts a on a.id = i.account_id join users u on u.id = i.invited_by
     where i.id = $1 and i.expires_at > $2`,
    [id, now],
  );
}

type MyInvitationRow = {
  id: string;
  accountId: string;
  accountHandle: string;
  accountName: string;
  role: RoleName;
  invitedBy: string;
  createdAt: Timestamp;
  expiresAt: Timestamp;
};

const FOR_INVITED = `select i.id, i.email, i.account_id as "accountId", a.handle as "accountHandle",
  a.display_name as "accountName", i.role, u.email as "invitedBy", i.created_at as "createdAt",
  i.expires_at as "expiresAt"
  from invitations i join accounts a on a.id = i.account_id join users u on u.id = i.invited_by`;

/** Lists the invitations to the e-mail of a user, newest first; none while the e-mail is not verified. */
export function listInvitationsToUser(
  db: Db,
  userId: string,
  page: { now: Date; before: string | undefined; limit: number },
) {
  return many<MyInvitationRow>(
    db,
    "invitations_list_to_user",
    `${FOR_INVITED} where i.email = (select email from users where id = $1 and email_verified_at is not null)
       and i.expires_at > $2 and ${isBelow("i.id", "$3")}
     order by i.id desc limit $4`,
    [userId, page.now, page.before, page.limit],
  );
}

/** Returns the invitation of a valid link, and whether its e-mail has a user who can sign in or is verified. */
export function findInvitationByLink(db: Db, hash: Buffer, now: Date) {
  return one<MyInvitationRow & { email: string; known: boolean }>(
    db,
    "invitation_find_by_link",
    `select f.*, exists (select from users k where k.email = f.email
       and (k.email_verified_at is not null or k.disabled_at is not null)) as known
     from (${FOR_INVITED} where i.token_hash = $1 and i.expires_at > $2) f`,
    [hash, now],
  );
}

export type ConsumedInvitation = { id: string; accountId: string; email: string; role: RoleName };

const CONSUMED = `i.id, i.account_id as "accountId", i.email, i.role`;

/** Locks the account of an invitation, if there is one, as `lockAccount` does. */
export function lockInvitingAccount(db: Db, id: string) {
  return execute(
    db,
    "account_lock_by_invitation",
    "select 1 from accounts where id = (select account_id from invitations where id = $1) for no key update",
    [id],
  );
}

/** Deletes and returns an invitation to the e-mail of a user; undefined when there is none. */
export function consumeInvitation(db: Db, userId: string, id: string, now: Date) {
  return one<ConsumedInvitation>(
    db,
    "invitation_consume",
    `delete from invitations i using users u
     where i.id = $1 and i.expires_at > $2 and u.id = $3 and u.email = i.email and u.email_verified_at is not null
     returning ${CONSUMED}`,
    [id, now, userId],
  );
}

/** Deletes and returns the invitation of a valid link; undefined when there is none. */
export function consumeInvitationByLink(db: Db, hash: Buffer, now: Date) {
  const text = `delete from invitations i where i.token_hash = $1 and i.expires_at > $2 returning ${CONSUMED}`;
  return one<ConsumedInvitation>(db, "invitation_consume_by_link", text, [hash, now]);
}

/** Deletes invitations 30 days after they expired. */
export function deleteExpiredInvitations(db: Db, now: Date) {
  const text = "delete from invitations where expires_at < $1::timestamptz - interval '30 days'";
  return execute(db, "invitations_delete_expired", text, [now]);
}
