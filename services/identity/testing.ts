import { randomBytes } from "node:crypto";
import { AccountService, SessionService } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { InvitationService } from "../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { PasswordService } from "../../proto/gen/berth/identity/v1/passwords_pb.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { hashToken, makeToken } from "../kit/crypto/bearer-token.ts";
import { createLog } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { readConfig } from "../kit/process/config.ts";
import { type Caller, capped, type RoleName } from "../kit/rpc/caller-token.ts";
import { clientAs, migratedDatabase, testKeys } from "../kit/testing/testing.ts";
import { fields } from "./config.ts";
import { start } from "./main.ts";
import type { FetchDocument } from "./oauth/registration/documents/fetch-document.ts";

export const OWNER_PASSWORD = "the-owner's-password";

/** Environment of an identity process for tests. */
export function testEnv(databaseUrl: string, natsUrl: string, more: Record<string, string> = {}) {
  return {
    DATABASE_URL: databaseUrl,
    NATS_URL: natsUrl,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(","),
    LOG_LEVEL: "silent",
    ...more,
  };
}

/**
 * Starts identity on a database and a NATS of its own, with a first owner and a clock that tests set; `fetchDocument`
 * serves clients' documents. Callers are built as a gateway builds them: from what identity returns for their token.
 */
export async function startIdentity(more: Record<string, string> = {}, fetchDocument?: FetchDocument) {
  const [database, nats] = await Promise.all([migratedDatabase(), testNats()]);
  const clock = { ms: Date.now() };
  const ownerToken = makeToken("pat");
  const env = testEnv(database.url("identity"), nats.url, {
    BOOTSTRAP_OWNER_EMAIL: "owner@example.com",
    BOOTSTRAP_OWNER_PASSWORD: OWNER_PASSWORD,
    BOOTSTRAP_OWNER_TOKEN: ownerToken,
    ...more,
  });
  const log = createLog("identity", "silent");
  const running = await start(readConfig(env, fields), log, () => clock.ms, fetchDocument);
  const pool = createPool(database.url("identity"));
  const gateway = clientAs(InternalService, running.port, { kind: "service", id: "gateway" });

  const lookup = (token: string) => gateway.lookupCaller({ tokenHash: hashToken(token) });

  /** Returns clients with this token, and its role in the account if one is given. */
  async function as(token: string, accountId?: string, ip = "203.0.113.7") {
    const record = await lookup(token);
    const found = record.memberships.find((membership) => membership.accountId === accountId);
    const role = found && capped(found.role as RoleName, record.roleCap as RoleName | undefined);
    const caller: Partial<Caller> = { id: record.userId, tokenId: record.tokenId, accountId, role, ip };
    return {
      caller,
      accounts: clientAs(AccountService, running.port, caller),
      sessions: clientAs(SessionService, running.port, caller),
      invitations: clientAs(InvitationService, running.port, caller),
      passwords: clientAs(PasswordService, running.port, caller),
    };
  }

  /** Returns a client without a token. */
  function anonymous(ip = "203.0.113.7") {
    return clientAs(SessionService, running.port, { kind: "anonymous", id: "", ip });
  }

  /** Returns clients without a token, for the link in a mail. */
  function visitor(ip = "203.0.113.7") {
    const caller = { kind: "anonymous" as const, id: "", ip };
    return {
      invitations: clientAs(InvitationService, running.port, caller),
      passwords: clientAs(PasswordService, running.port, caller),
    };
  }

  const owner = await as(ownerToken);
  const { accounts } = await owner.sessions.getMe({});
  const accountId = accounts[0]!.id;

  /** Invites a new user, who joins by the link and signs in. The first owner must own the account. */
  async function member(role: RoleName, inAccount = accountId) {
    const email = `${randomBytes(6).toString("hex")}@example.com`;
    const password = "a-long-first-password";
    const { invitations } = await as(ownerToken, inAccount);
    const { link } = await invitations.inviteMember({ accountId: inAccount, email, role });
    const joined = await visitor().invitations.joinByInvitation({ token: tokenIn(link), password });
    const { token } = await anonymous().signIn({ email, password });
    return { userId: joined.user!.id, email, password, token };
  }

  /** Adds a user to an account of the first owner by an invitation that the user accepts. */
  async function invite(user: { email: string; token: string }, role: RoleName, inAccount: string) {
    const inviter = await as(ownerToken, inAccount);
    const { id } = await inviter.invitations.inviteMember({ accountId: inAccount, email: user.email, role });
    await (await as(user.token)).invitations.acceptInvitation({ invitationId: id });
  }

  /** Creates an account with the first owner as its only member. */
  async function account() {
    const handle = `h${randomBytes(6).toString("hex")}`;
    return (await owner.accounts.createAccount({ handle })).id;
  }

  return {
    port: running.port,
    database,
    nats,
    pool,
    clock,
    ownerToken,
    gateway,
    ownerId: owner.caller.id!,
    accountId,
    lookup,
    as,
    anonymous,
    visitor,
    member,
    invite,
    account,
    stop: async () => {
      await running.stop();
      await pool.end();
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}

export type TestIdentity = Awaited<ReturnType<typeof startIdentity>>;

/** Returns the token of a one-time link. */
export function tokenIn(link: string | undefined): string {
  return new URL(link!).hash.slice(1);
}
