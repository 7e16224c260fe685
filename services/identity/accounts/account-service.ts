import { type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  AccountCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { AccountService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { isDuplicate, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { capped } from "../../kit/rpc/caller-token.ts";
import { type Who, who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound, refuse } from "../../kit/rpc/refusals.ts";
import { listAuditEvents } from "../audit/sql.ts";
import { authenticate, authenticateUnlimited, tokenEnded } from "../tokens/authenticate.ts";
import { deleteAccount, type Neighbours, requireDeletable } from "./delete-account.ts";
import type { DescribePlan } from "./plan.ts";
import * as sql from "./sql.ts";

type AccountDeps = {
  pool: Pool;
  cursors: Cursors;
  now: () => number;
  describePlan: DescribePlan;
  /** Waits, for a limited time, until the audit records that services have sent are stored. */
  auditCaughtUp: () => Promise<unknown>;
} & Neighbours;

// A record's time is read just after its id is made; this covers any pause in between.
const ID_SLACK_MS = 60_000;

/** Accounts, their members and their audit log (docs/identity.md#accounts). */
export function accountService(deps: AccountDeps): ServiceImpl<typeof AccountService> {
  const { pool, cursors, now, describePlan, auditCaughtUp } = deps;
  return {
    async createAccount(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "create an account");
      return effect(pool, ctx, async (tx) => {
        const { handle, displayName = handle } = req;
        const account = await sql.insertAccount(tx, { id: newId("acc"), handle, displayName });
        if (!account) throw handleTaken();
        const owner = { id: newId("mem"), accountId: account.id, userId, role: "owner" };
        if ((await sql.insertMembership(tx, owner)) === 0) throw tokenEnded();
        await recordAccountCreated(tx, who(ctx), account, { userId, at: timestampFromMs(now()) });
        return { ...account, ...describePlan(account), myRole: "owner" };
      });
    },

    async listAccounts(req, ctx) {
      const { scope, userId } = await authenticate(pool, ctx, now());
      const user = { userId, accountId: scope.accountId ?? undefined };
      return cursors.page(`accounts:${userId}`, req, async (page) => {
        const found = await sql.listAccountsByUser(pool, user, page);
        return found.map((row) => ({ ...row, myRole: capped(row.myRole, scope.roleCap ?? undefined) }));
      });
    },

    async getAccount(req, ctx) {
      const account = await sql.findAccount(pool, req.accountId);
      if (!account) throw notFound("account");
      return { ...account, ...describePlan(account), myRole: who(ctx).caller.role };
    },

    async updateAccount(req, ctx) {
      const { accountId, handle, displayName } = req;
      if (handle === undefined && displayName === undefined)
        throw invalid("", "empty_patch", "Give a handle or a displayName.");
      return transaction(pool, async (tx) => {
        const account = await sql.updateAccount(tx, accountId, { handle, displayName }).catch((error) => {
          throw isDuplicate(error, "accounts_handle_key") ? handleTaken() : error;
        });
        if (!account) throw notFound("account");
        const metadata = { ...(handle && { handle }), ...(displayName && { displayName }) };
        await audit(tx, who(ctx), {
          service: "identity",
          accountId,
          action: "account.update",
          target: accountId,
          metadata,
        });
        return { ...account, ...describePlan(account), myRole: who(ctx).caller.role };
      });
    },

    async deleteAccount({ accountId, confirmImpact }, ctx) {
      await authenticateUnlimited(pool, ctx, now(), "delete an account");
      await requireDeletable(deps, accountId, confirmImpact);
      return transaction(pool, async (tx) => {
        await deleteAccount(tx, who(ctx), accountId, new Date(now()));
        return {};
      });
    },

    async listMembers(req, ctx) {
      const { accountId } = req;
      return cursors.page(`members:${accountId}`, req, async (page) => {
        const found = await sql.listMembers(pool, accountId, page);
        return found.map((member) => visibleTo(ctx, member));
      });
    },

    async getMember({ accountId, userId }, ctx) {
      const member = await sql.findMember(pool, accountId, userId);
      if (!member) throw notFound("member");
      return visibleTo(ctx, member);
    },

    async updateMember(req, ctx) {
      const { accountId, userId, role } = req;
      return transaction(pool, async (tx) => {
        await sql.lockAccount(tx, accountId);
        const member = await sql.findMember(tx, accountId, userId);
        if (!member) throw notFound("member");
        if (member.role === role) return member;
        await requireAnotherOwner(tx, accountId, member);
        await sql.updateRole(tx, accountId, userId, role);
        const previousRole = member.role;
        const event = { accountId, userId, role, previousRole, at: timestampFromMs(now()) };
        await emit(tx, MemberRoleChangedSchema, accountId, event);
        await auditMember(tx, ctx, "member.update", accountId, userId, { role, previousRole });
        return { ...member, role };
      });
    },

    async removeMember(req, ctx) {
      const { accountId, userId } = req;
      const { caller } = who(ctx);
      const leaves = userId === caller.id;
      if (caller.role !== "owner") {
        if (!leaves)
          throw refuse(403, "forbidden", "Only owners remove other members.", {
            context: { requiredRole: "owner" },
          });
        await authenticateUnlimited(pool, ctx, now(), "leave an account");
      }
      return transaction(pool, async (tx) => {
        await sql.lockAccount(tx, accountId);
        const member = await sql.findMember(tx, accountId, userId);
        if (!member) throw notFound("member");
        await requireAnotherOwner(tx, accountId, member);
        await sql.deleteMembership(tx, accountId, userId);
        const event = { accountId, userId, byUserId: caller.id, at: timestampFromMs(now()) };
        await emit(tx, MemberRemovedSchema, accountId, event);
        const action = leaves ? "member.leave" : "member.remove";
        await auditMember(tx, ctx, action, accountId, userId, { role: member.role });
        return {};
      });
    },

    async listAuditEvents(req) {
      const { accountId } = req;
      const since = req.since && timestampDate(req.since);
      const filter = {
        accountId,
        action: req.action || undefined,
        actor: req.actor || undefined,
        target: req.target || undefined,
        from: since && lowestAuditId(since.getTime() - ID_SLACK_MS),
        since,
      };
      // A cursor is bound to its account and filter: with another filter, pages would skip records.
      if (!req.cursor) await auditCaughtUp();
      const list = JSON.stringify([
        "audit",
        accountId,
        filter.action,
        filter.actor,
        since?.getTime(),
        ...(filter.target === undefined ? [] : [filter.target]),
      ]);
      return cursors.page(list, req, (page) => listAuditEvents(pool, { ...filter, ...page }));
    },
  };
}

/** Writes the events and the audit record of a new account and its first owner. */
export async function recordAccountCreated(
  tx: Tx,
  by: Who,
  account: { id: string; handle: string },
  { userId, at }: { userId: string; at: Timestamp },
): Promise<void> {
  const { id: accountId, handle } = account;
  await emit(tx, AccountCreatedSchema, accountId, { accountId, handle, ownerUserId: userId });
  await emit(tx, MemberAddedSchema, accountId, { accountId, userId, role: "owner", founder: true, at });
  const entry = { service: "identity", accountId, action: "account.create", target: accountId };
  await audit(tx, by, { ...entry, metadata: { handle } });
}

function auditMember(
  tx: Tx,
  ctx: Parameters<typeof who>[0],
  action: string,
  accountId: string,
  userId: string,
  metadata: Record<string, string>,
): Promise<void> {
  return audit(tx, who(ctx), { service: "identity", accountId, action, target: userId, metadata });
}

/** Returns a member as the caller may see it: only owners see e-mails. */
function visibleTo(ctx: Parameters<typeof who>[0], member: sql.MemberRow) {
  if (who(ctx).caller.role === "owner") return member;
  const { email: _, ...shown } = member;
  return shown;
}

/** Throws 409 last_owner when the member is the only owner. The caller holds the account's lock. */
async function requireAnotherOwner(tx: Tx, accountId: string, member: sql.MemberRow): Promise<void> {
  if (member.role !== "owner" || (await sql.countOtherOwners(tx, accountId, member.userId)) > 0) return;
  throw conflict(
    "last_owner",
    "An account must keep at least one owner. Make another member an owner first.",
  );
}

function handleTaken() {
  return conflict("handle_taken", "Another account has this handle.");
}

// The time is the first 10 of an id's 26 characters; truncated there, it sorts before every id of that time.
function lowestAuditId(ms: number): string {
  return newId("aud", Math.max(ms, 0)).slice(0, "aud_".length + 10);
}
