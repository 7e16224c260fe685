import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  InvitationCreatedSchema,
  MemberAddedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { InvitationService } from "../../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { hashToken } from "../../kit/crypto/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { queueMail } from "../../kit/mail/mail.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Db, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { type Who, who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound, refuse } from "../../kit/rpc/refusals.ts";
import { requireSeat } from "../accounts/plan.ts";
import { findAccount, findMemberByEmail, insertMembership, lockAccount } from "../accounts/sql.ts";
import { windowKey } from "../attempts/keys.ts";
import { countOrRefuse, countWithin } from "../attempts/limits.ts";
import { findOperatorAccount } from "../installation/sql.ts";
import { invitationSeed, type Links, newNonce } from "../links/links.ts";
import { hashPassword, requireStrong } from "../passwords/passwords.ts";
import { authenticate, authenticateUnlimited, DAY_MS } from "../tokens/authenticate.ts";
import { revokeAllTokens } from "../tokens/lifecycle.ts";
import { permits } from "../tokens/token-scope.ts";
import { claimEmail, findUser, findUserByEmail, insertUser } from "../users/sql.ts";
import * as sql from "./sql.ts";

type InvitationDeps = {
  pool: Pool;
  cursors: Cursors;
  now: () => number;
  links: Links;
  /** Whether mails are sent. If not, operators pass links on themselves. */
  mails: boolean;
  entitlementsOf: EntitlementsOf;
};

const INVITATION_DAYS = 7;
const MAX_OPEN = 100;
// Limits how many people one user can make Berth mail, and how many mails one mailbox receives.
const PER_INVITER = { max: 200, seconds: 86_400 };
const PER_RECIPIENT = { max: 10, seconds: 86_400 };

/** Invitations, the only way to become a member of an account (docs/identity.md#invitations). */
export function invitationService(deps: InvitationDeps): ServiceImpl<typeof InvitationService> {
  const { pool, cursors, now, links, entitlementsOf } = deps;
  return {
    async inviteMember(req, ctx) {
      const { accountId, role } = req;
      const email = req.email.toLowerCase();
      const id = newId("inv");
      return effect(pool, ctx, async (tx) => {
        await lockAccount(tx, accountId);
        if (await findMemberByEmail(tx, accountId, email))
          throw conflict("already_member", "This user is already a member of the account.");
        await requireSeat(tx, entitlementsOf, accountId);
        await requireQuota(tx, accountId, new Date(now()));
        const { url, ...link } = newLink(id);
        const invitedBy = who(ctx).caller.id;
        const createdAt = new Date(now());
        const row = { ...link, id, accountId, email, role, invitedBy, createdAt };
        if (!(await sql.insertInvitation(tx, row)))
          throw conflict(
            "already_invited",
            "This e-mail is already invited. Resend or withdraw that invitation.",
          );
        const known = await findUserByEmail(tx, email);
        await emit(tx, InvitationCreatedSchema, accountId, {
          accountId,
          invitationId: id,
          role,
          invitedByUserId: invitedBy,
          userId: known?.emailVerified ? known.id : "",
        });
        await auditInvitation(tx, who(ctx), "invitation.create", { id, accountId, email, role });
        return sendInvitation(tx, ctx, { id, accountId, email, url });
      });
    },

    async listInvitations(req) {
      const { accountId } = req;
      return cursors.page(`invitations:${accountId}`, req, (page) =>
        sql.listInvitations(pool, accountId, page),
      );
    },

    async getInvitation({ accountId, invitationId }) {
      return (await sql.findInvitation(pool, accountId, invitationId)) ?? throwNotFound();
    },

    async resendInvitation({ accountId, invitationId: id }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const { url, ...link } = newLink(id);
        const { email } = (await sql.renewInvitation(tx, { ...link, id, accountId })) ?? throwNotFound();
        await auditInvitation(tx, who(ctx), "invitation.resend", { id, accountId, email });
        return sendInvitation(tx, ctx, { id, accountId, email, url });
      });
    },

    async withdrawInvitation({ accountId, invitationId: id }, ctx) {
      return transaction(pool, async (tx) => {
        const withdrawn = (await sql.deleteInvitation(tx, accountId, id)) ?? throwNotFound();
        await auditInvitation(tx, who(ctx), "invitation.withdraw", { id, accountId, ...withdrawn });
        return {};
      });
    },

    async listMyInvitations(req, ctx) {
      const { userId } = await authenticate(pool, ctx, now());
      const at = new Date(now());
      return cursors.page(`invited:${userId}`, req, (page) =>
        sql.listInvitationsToUser(pool, userId, { now: at, ...page }),
      );
    },

    async acceptInvitation(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "accept an invitation");
      return effect(pool, ctx, async (tx) => {
        await sql.lockInvitingAccount(tx, req.invitationId);
        const invitation =
          (await sql.consumeInvitation(tx, userId, req.invitationId, new Date(now()))) ?? throwNotFound();
        await requireSeat(tx, entitlementsOf, invitation.accountId);
        return addMember(tx, who(ctx), invitation, { userId, at: timestampFromMs(now()) });
      });
    },

    async declineInvitation(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "decline an invitation");
      return effect(pool, ctx, async (tx) => {
        const invitation =
          (await sql.consumeInvitation(tx, userId, req.invitationId, new Date(now()))) ?? throwNotFound();
        await auditInvitation(tx, who(ctx), "invitation.decline", invitation);
        return {};
      });
    },

    async openInvitation(req) {
      return (
        (await sql.findInvitationByLink(pool, hashToken(req.token), new Date(now()))) ?? throwLinkExpired()
      );
    },

    async joinByInvitation(req, ctx) {
      const hash = hashToken(req.token);
      const found = (await sql.findInvitationByLink(pool, hash, new Date(now()))) ?? throwLinkExpired();
      if (found.known) throw userExists();
      requireStrong("password", req.password);
      const passwordHash = await hashPassword(req.password);
      const { displayName } = req;
      return transaction(pool, async (tx) => {
        await lockAccount(tx, found.accountId);
        const invitation =
          (await sql.consumeInvitationByLink(tx, hash, new Date(now()))) ?? throwLinkExpired();
        await requireSeat(tx, entitlementsOf, invitation.accountId);
        const user = { email: invitation.email, displayName, passwordHash, now: new Date(now()) };
        const userId = await createUser(tx, who(ctx), user);
        const caller = { ...who(ctx).caller, kind: "user" as const, id: userId };
        const by = { ...who(ctx), caller };
        const account = await addMember(tx, by, invitation, { userId, at: timestampFromMs(now()) });
        return { user: await findUser(tx, userId), account };
      });
    },
  };

  function newLink(id: string) {
    const nonce = newNonce();
    const { url, hash } = links.make("inv", invitationSeed(id, nonce));
    return { url, nonce, hash, expiresAt: new Date(now() + INVITATION_DAYS * DAY_MS) };
  }

  /** Queues the mail and returns the answer to the inviter. Neither depends on whether the e-mail has a user. */
  async function sendInvitation(
    tx: Tx,
    ctx: HandlerContext,
    { id, accountId, email, url }: { id: string; accountId: string; email: string; url: string },
  ) {
    const at = new Date(now());
    const inviter = windowKey("inviter", who(ctx).caller.id);
    await countOrRefuse(
      tx,
      inviter,
      PER_INVITER,
      at,
      "You have sent as many invitations as a day allows. Try again tomorrow.",
    );
    if (deps.mails && (await countWithin(tx, windowKey("invited", email), PER_RECIPIENT, at)))
      await queueMail(tx, { kind: "invitation", address: email, data: { invitationId: id } });
    const invitation = await sql.findInvitation(tx, accountId, id);
    const shown = !deps.mails && (await isOperator(tx, ctx, now()));
    return { ...invitation, ...(shown && { link: url }) };
  }
}

async function isOperator(db: Db, ctx: HandlerContext, ms: number): Promise<boolean> {
  const { scope, userId } = await authenticate(db, ctx, ms);
  const account = await findOperatorAccount(db, userId);
  return account !== undefined && permits(scope, account);
}

async function requireQuota(tx: Tx, accountId: string, now: Date): Promise<void> {
  if ((await sql.countOpenInvitations(tx, accountId, now)) < MAX_OPEN) return;
  const message = `An account has at most ${MAX_OPEN} open invitations. Withdraw one first.`;
  throw refuse(403, "quota_exceeded", message, { context: { limit: MAX_OPEN } });
}

/** Returns the user for an e-mail whose owner opened the link: a new one, or one that an owner created in advance. */
async function createUser(
  tx: Tx,
  by: Who,
  user: { email: string; displayName: string | undefined; passwordHash: string; now: Date },
): Promise<string> {
  const { email, displayName, passwordHash, now } = user;
  const id = newId("usr");
  const name = displayName ?? email.split("@")[0]!.slice(0, 80);
  const created = await insertUser(tx, { id, email, displayName: name, passwordHash, verifiedAt: now });
  if (created) return created.id;
  const known = (await findUserByEmail(tx, email))!;
  const claimed = await claimEmail(tx, { id: known.id, passwordHash, displayName, now });
  if (!claimed?.first) throw userExists();
  const caller = { ...by.caller, kind: "user" as const, id: known.id };
  const all = { userId: known.id, except: undefined, personalToo: true, now };
  await revokeAllTokens(tx, { ...by, caller }, all);
  return known.id;
}

/** Adds the invited member, and returns the account as the member sees it. */
async function addMember(
  tx: Tx,
  by: Who,
  invitation: sql.ConsumedInvitation,
  { userId, at }: { userId: string; at: Timestamp },
) {
  const { accountId, role } = invitation;
  const inserted = await insertMembership(tx, { id: newId("mem"), accountId, userId, role });
  if (inserted === 0) throw conflict("already_member", "You are already a member of this account.");
  await emit(tx, MemberAddedSchema, accountId, { accountId, userId, role, at });
  await auditInvitation(tx, by, "invitation.accept", invitation);
  return { ...(await findAccount(tx, accountId))!, myRole: role };
}

function auditInvitation(
  tx: Tx,
  by: Who,
  action: string,
  { id, accountId, email, role }: { id: string; accountId: string; email: string; role?: string },
): Promise<void> {
  const metadata = { email, ...(role && { role }) };
  return audit(tx, by, { service: "identity", accountId, action, target: id, metadata });
}

function throwNotFound(): never {
  throw notFound("invitation");
}

function throwLinkExpired(): never {
  const message = "This link was used or withdrawn, or has expired. Ask for another invitation.";
  throw invalid("token", "link_expired", message);
}

function userExists() {
  const message = "This e-mail already has a user. Sign in and accept the invitation at /me/invitations.";
  return conflict("user_exists", message);
}
