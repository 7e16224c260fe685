import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { MemberAddedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { InvitationService } from "../../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { hashToken } from "../../kit/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { queueMail } from "../../kit/mail/mail.ts";
import { type Db, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { conflict, invalid, notFound, refuse } from "../../kit/rpc/errors.ts";
import { effect } from "../../kit/rpc/idempotency.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { findAccount, findMemberByEmail, insertMembership, lockAccount } from "../accounts/sql.ts";
import { findOperatorAccount } from "../bootstrap/sql.ts";
import { type Links, newNonce } from "../mail/links.ts";
import { invitationSeed } from "../mail/mail-contents.ts";
import { hashPassword, requireStrong } from "../passwords/passwords.ts";
import { windowKey } from "../sign-in/attempt-keys.ts";
import { countOrRefuse, countWithin } from "../sign-in/attempt-limits.ts";
import { authenticate, authenticateUnlimited, DAY_MS } from "../tokens/authenticate.ts";
import { revokeAllTokens } from "../tokens/lifecycle.ts";
import { permits } from "../tokens/token-scope.ts";
import { claimEmail, findUser, findUserByEmail, insertUser } from "../users/sql.ts";
import * as sql from "./sql.ts";

export type InvitationDeps = {
  pool: Pool;
  cursors: Cursors;
  now: () => number;
  links: Links;
  /** Whether mails are sent. Without, operators hand links over themselves. */
  mails: boolean;
};

type Who = ReturnType<typeof who>;

const DEFAULT_LIMIT = 20;
const INVITATION_DAYS = 7;
const MAX_OPEN = 100;
// Nobody sends mail to the whole world by us, and nobody fills the mailbox of one.
const PER_INVITER = { max: 200, seconds: 86_400 };
const PER_RECIPIENT = { max: 10, seconds: 86_400 };

/** Invitations, which are how people come into an account (docs/identity.md#invitations). */
export function invitationService(deps: InvitationDeps): ServiceImpl<typeof InvitationService> {
  const { pool, cursors, now, links } = deps;
  return {
    async inviteMember(req, ctx) {
      const { accountId, role } = req;
      const email = req.email.toLowerCase();
      const id = newId("inv");
      return effect(pool, ctx, async (tx) => {
        await lockAccount(tx, accountId);
        if (await findMemberByEmail(tx, accountId, email))
          throw conflict("already_member", "This user is a member of the account already.");
        await requireRoom(tx, accountId, new Date(now()));
        const { url, ...link } = newLink(id);
        const invitedBy = who(ctx).caller.id;
        const createdAt = new Date(now());
        const row = { ...link, id, accountId, email, role, invitedBy, createdAt };
        if (!(await sql.insertInvitation(tx, row)))
          throw conflict(
            "already_invited",
            "This e-mail is invited already. Resend or withdraw that invitation.",
          );
        await auditInvitation(tx, who(ctx), "invitation.create", { id, accountId, email, role });
        return sent(tx, ctx, { id, accountId, email, url });
      });
    },

    async listInvitations(req) {
      const { accountId, limit = DEFAULT_LIMIT } = req;
      const before = cursors.decode(`invitations:${accountId}`, req.cursor);
      const found = await sql.listInvitations(pool, accountId, { before, limit: limit + 1 });
      return cursors.page(`invitations:${accountId}`, found, limit, (row) => row.id);
    },

    async getInvitation({ accountId, invitationId }) {
      return (await sql.findInvitation(pool, accountId, invitationId)) ?? gone();
    },

    async resendInvitation({ accountId, invitationId: id }, ctx) {
      return effect(pool, ctx, async (tx) => {
        const { url, ...link } = newLink(id);
        const { email } = (await sql.renewInvitation(tx, { ...link, id, accountId })) ?? gone();
        await auditInvitation(tx, who(ctx), "invitation.resend", { id, accountId, email });
        return sent(tx, ctx, { id, accountId, email, url });
      });
    },

    async withdrawInvitation({ accountId, invitationId: id }, ctx) {
      return transaction(pool, async (tx) => {
        const withdrawn = (await sql.deleteInvitation(tx, accountId, id)) ?? gone();
        await auditInvitation(tx, who(ctx), "invitation.withdraw", { id, accountId, ...withdrawn });
        return {};
      });
    },

    async listMyInvitations(req, ctx) {
      const { userId } = await authenticate(pool, ctx, now());
      const { limit = DEFAULT_LIMIT } = req;
      const before = cursors.decode(`invited:${userId}`, req.cursor);
      const page = { now: new Date(now()), before, limit: limit + 1 };
      const found = await sql.listInvitationsToUser(pool, userId, page);
      return cursors.page(`invited:${userId}`, found, limit, (row) => row.id);
    },

    async acceptInvitation(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "accept an invitation");
      return effect(pool, ctx, async (tx) => {
        const taken = (await sql.consumeInvitation(tx, userId, req.invitationId, new Date(now()))) ?? gone();
        return join(tx, who(ctx), taken, userId);
      });
    },

    async declineInvitation(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "decline an invitation");
      return effect(pool, ctx, async (tx) => {
        const taken = (await sql.consumeInvitation(tx, userId, req.invitationId, new Date(now()))) ?? gone();
        await auditInvitation(tx, who(ctx), "invitation.decline", taken);
        return {};
      });
    },

    async openInvitation(req) {
      return (await sql.findInvitationByLink(pool, hashToken(req.token), new Date(now()))) ?? expired();
    },

    async joinByInvitation(req, ctx) {
      const hash = hashToken(req.token);
      const found = (await sql.findInvitationByLink(pool, hash, new Date(now()))) ?? expired();
      if (found.known) throw userExists();
      requireStrong("password", req.password);
      const passwordHash = await hashPassword(req.password);
      const { displayName } = req;
      return transaction(pool, async (tx) => {
        const taken = (await sql.consumeInvitationByLink(tx, hash, new Date(now()))) ?? expired();
        const person = { email: taken.email, displayName, passwordHash, now: new Date(now()) };
        const userId = await makeUser(tx, person);
        const caller = { ...who(ctx).caller, kind: "user" as const, id: userId };
        const account = await join(tx, { ...who(ctx), caller }, taken, userId);
        return { user: await findUser(tx, userId), account };
      });
    },
  };

  function newLink(id: string) {
    const nonce = newNonce();
    const { url, hash } = links.make("inv", invitationSeed(id, nonce));
    return { url, nonce, hash, expiresAt: new Date(now() + INVITATION_DAYS * DAY_MS) };
  }

  /** The answer to who invited, and the mail. None of it depends on whether the e-mail has a user. */
  async function sent(
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
      "You have sent as many invitations as one day takes. Go on tomorrow.",
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

async function requireRoom(tx: Tx, accountId: string, now: Date): Promise<void> {
  if ((await sql.countOpenInvitations(tx, accountId, now)) < MAX_OPEN) return;
  const message = `An account has at most ${MAX_OPEN} open invitations. Withdraw one first.`;
  throw refuse(403, "quota_exceeded", message, { context: { limit: MAX_OPEN } });
}

/** The user of an e-mail whose owner opened the link: a new one, or one whom somebody made in advance. */
async function makeUser(
  tx: Tx,
  person: { email: string; displayName: string | undefined; passwordHash: string; now: Date },
): Promise<string> {
  const { email, displayName, passwordHash, now } = person;
  const id = newId("usr");
  const name = displayName ?? email.split("@")[0]!.slice(0, 80);
  const made = await insertUser(tx, { id, email, displayName: name, passwordHash, verifiedAt: now });
  if (made) return made.id;
  const known = (await findUserByEmail(tx, email))!;
  const proven = await claimEmail(tx, { id: known.id, passwordHash, displayName, now });
  if (!proven?.first) throw userExists();
  await revokeAllTokens(tx, { userId: known.id, except: undefined, personalToo: true, now });
  return known.id;
}

/** Makes the member that an invitation promised, and answers the account as the member sees it. */
async function join(tx: Tx, by: Who, taken: sql.ConsumedInvitation, userId: string) {
  const { accountId, role } = taken;
  const fresh = await insertMembership(tx, { id: newId("mem"), accountId, userId, role });
  if (fresh === 0) throw conflict("already_member", "You are a member of this account already.");
  await emit(tx, MemberAddedSchema, accountId, { accountId, userId, role });
  await auditInvitation(tx, by, "invitation.accept", taken);
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

function gone(): never {
  throw notFound("invitation");
}

function expired(): never {
  const message = "This link was used or withdrawn, or is too old. Ask for another invitation.";
  throw invalid("token", "link_expired", message);
}

function userExists() {
  const message = "This e-mail has a user already. Sign in, and accept the invitation at /me/invitations.";
  return conflict("user_exists", message);
}
