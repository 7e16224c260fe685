import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { UserSignedInSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { SessionService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { createKeyedMutex } from "../../kit/concurrency/keyed-mutex.ts";
import { hashToken, lastFour, makeToken } from "../../kit/crypto/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { capped, type RoleName } from "../../kit/rpc/caller-token.ts";
import { type Who, who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound, refuse } from "../../kit/rpc/refusals.ts";
import { findMember, listAccountsByUser } from "../accounts/sql.ts";
import { attemptKey } from "../attempts/keys.ts";
import { type Attempt, admitSignIn, completeSignIn, isFromKnownNetwork } from "../attempts/limits.ts";
import { clearAttempts } from "../attempts/sql.ts";
import { checkPassword } from "../passwords/check-password.ts";
import type { PasswordCheck } from "../passwords/passwords.ts";
import {
  authenticate,
  authenticateUnlimited,
  DAY_MS,
  SESSION_DAYS,
  SESSION_IDLE_SECONDS,
} from "../tokens/authenticate.ts";
import { issueToken, revokeToken } from "../tokens/lifecycle.ts";
import * as sql from "../tokens/sql.ts";
import { permits, type TokenScope } from "../tokens/token-scope.ts";
import { findCredentials, findUser, markSignedIn, renameUser, type UserRow } from "../users/sql.ts";
import { deleteUser } from "./delete-user.ts";

type SessionDeps = { pool: Pool; cursors: Cursors; now: () => number; passwords: PasswordCheck };

const DEFAULT_TOKEN_DAYS = 90;
const MAX_TOKENS = 100;

/** Sign-in, the caller's own identity and personal tokens (docs/identity.md#sessions). */
export function sessionService(deps: SessionDeps): ServiceImpl<typeof SessionService> {
  const { pool, cursors, now, passwords } = deps;
  const attempts = createKeyedMutex();

  /** Returns a user with the accounts within a token's scope. */
  async function meOf(userId: string, scope: TokenScope) {
    const user = await findUser(pool, userId);
    const mine = { userId, accountId: scope.accountId ?? undefined };
    const accounts = await listAccountsByUser(pool, mine, { before: undefined, limit: undefined });
    const mineAs = (role: RoleName) => capped(role, scope.roleCap ?? undefined);
    return { ...user, accounts: accounts.map((row) => ({ ...row, myRole: mineAs(row.myRole) })) };
  }

  return {
    async signIn(req, ctx) {
      const email = req.email.trim().toLowerCase();
      const { ip } = who(ctx).caller;
      return attempts.run(attemptKey(email, ip).toString("hex"), async () => {
        const attempt = await admitSignIn(pool, email, ip, now());
        const user = await findCredentials(pool, email);
        const matches = await passwords(user?.passwordHash ?? undefined, req.password);
        if (user && matches && !user.disabled) return openSession(deps, who(ctx), user, attempt);
        await auditFailure(pool, who(ctx), user?.id);
        throw refuse(401, "unauthenticated", "The e-mail or the password is wrong.");
      });
    },

    async signOut(_req, ctx) {
      const { kind, ...current } = await authenticate(pool, ctx, now());
      if (kind !== "session")
        throw conflict("conflict", "The request carries a personal token. Revoke it at /me/tokens.");
      await transaction(pool, (tx) => revokeToken(tx, who(ctx), { ...current, kind, now: now() }));
      return {};
    },

    async getMe(_req, ctx) {
      const { userId, scope } = await authenticate(pool, ctx, now());
      return meOf(userId, scope);
    },

    async updateMe({ displayName }, ctx) {
      const { userId, scope } = await authenticateUnlimited(pool, ctx, now(), "change the user's name");
      if (displayName === undefined) throw invalid("", "empty_patch", "Give a displayName.");
      await transaction(pool, async (tx) => {
        await renameUser(tx, userId, displayName);
        const entry = { service: "identity", accountId: "", action: "user.update", target: userId };
        await audit(tx, who(ctx), entry);
      });
      return meOf(userId, scope);
    },

    async deleteMe({ password }, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "delete the user");
      const { key, passwordHash } = await checkPassword({ pool, passwords, now }, userId, {
        path: "password",
        password,
      });
      await transaction(pool, async (tx) => {
        await clearAttempts(tx, key);
        await deleteUser(tx, who(ctx), { id: userId, passwordHash, now: new Date(now()) });
      });
      return {};
    },

    async listSessions(req, ctx) {
      const { id, userId } = await authenticate(pool, ctx, now());
      const valid = { now: new Date(now()), idleSeconds: SESSION_IDLE_SECONDS };
      return cursors.page(`sessions:${userId}`, req, async (page) => {
        const found = await sql.listSessions(pool, userId, { ...valid, ...page });
        return found.map((row) => ({ ...row, current: row.id === id }));
      });
    },

    async endSession(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "end a session");
      return transaction(pool, async (tx) => {
        const session = { id: req.sessionId, userId, kind: "session" as const, now: now() };
        if (!(await revokeToken(tx, who(ctx), session))) throw notFound("session");
        return {};
      });
    },

    async createToken(req, ctx) {
      const { userId, scope } = await authenticate(pool, ctx, now());
      const { name, roleCap, accountId, expiresInDays = DEFAULT_TOKEN_DAYS } = req;
      if (!permits(scope, { roleCap: roleCap as RoleName | undefined, accountId }))
        throw refuse(
          403,
          "forbidden",
          "A limited token can only create tokens for its own account, with at most its own role.",
        );
      if (accountId !== undefined && !(await findMember(pool, accountId, userId)))
        throw refuse(403, "forbidden", "The caller is not a member of this account.");
      const createdAt = new Date(now());
      const expiresAt = new Date(now() + expiresInDays * DAY_MS);
      const more = { name, roleCap, accountId, createdAt, expiresAt };
      return effect(pool, ctx, async (tx) => {
        if ((await sql.countTokens(tx, userId, createdAt)) >= MAX_TOKENS) throw tooManyTokens();
        return issueToken(tx, who(ctx), userId, makeToken("pat"), more);
      });
    },

    async listTokens(req, ctx) {
      const { userId } = await authenticate(pool, ctx, now());
      const at = new Date(now());
      return cursors.page(`tokens:${userId}`, req, (page) =>
        sql.listTokens(pool, userId, { now: at, ...page }),
      );
    },

    async revokeToken(req, ctx) {
      const { userId, scope } = await authenticate(pool, ctx, now());
      return transaction(pool, async (tx) => {
        const token = { id: req.tokenId, userId, kind: "token" as const, now: now() };
        const ended = await revokeToken(tx, who(ctx), token);
        if (!ended) throw notFound("token");
        if (!permits(scope, ended))
          throw refuse(403, "forbidden", "A limited token cannot revoke a token that reaches further.");
        return {};
      });
    },
  };
}

function tooManyTokens() {
  const message = `A user has at most ${MAX_TOKENS} tokens. Delete one at /me/tokens that is no longer used.`;
  return refuse(403, "quota_exceeded", message, { context: { limit: MAX_TOKENS } });
}

async function openSession({ pool, now }: SessionDeps, by: Who, user: UserRow, attempt: Attempt) {
  const text = makeToken("ses");
  const id = newId("tok");
  const session = {
    id,
    userId: user.id,
    kind: "session" as const,
    name: "session",
    hash: hashToken(text),
    lastFour: lastFour(text),
    ip: by.caller.ip,
    createdAt: new Date(now()),
    expiresAt: new Date(now() + SESSION_DAYS * DAY_MS),
  };
  return transaction(pool, async (tx) => {
    const { expiresAt } = (await sql.insertToken(tx, session))!;
    await completeSignIn(tx, attempt);
    const first = await markSignedIn(tx, user.id, session.createdAt);
    const newNetwork = !first && !isFromKnownNetwork(attempt);
    const event = {
      userId: user.id,
      ip: by.caller.ip,
      newNetwork,
      sessionId: id,
      at: timestampFromDate(session.createdAt),
    };
    await emit(tx, UserSignedInSchema, "", event);
    const caller = { ...by.caller, kind: "user" as const, id: user.id, tokenId: id };
    const entry = { service: "identity", accountId: "", action: "auth.sign_in", target: user.id };
    await audit(tx, { ...by, caller }, entry);
    return { token: text, expiresAt, user };
  });
}

// The typed e-mail is not recorded: people type their password there by mistake.
async function auditFailure(pool: Pool, by: Who, userId: string | undefined): Promise<void> {
  await audit(pool, by, {
    service: "identity",
    accountId: "",
    action: "auth.sign_in_failed",
    target: userId ?? "",
  });
}
