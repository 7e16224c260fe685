import { randomBytes } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { GrantCreatedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { OauthService } from "../../../proto/gen/berth/identity/v1/oauth_pb.ts";
import { hashToken } from "../../kit/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";
import { invalid, notFound, refuse } from "../../kit/rpc/errors.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { findMember, listAccountsByUser } from "../accounts/sql.ts";
import { authenticateUnlimited } from "../tokens/authenticate.ts";
import { GRANT_SECONDS, recordRevoked } from "./grants.ts";
import { consents } from "./metrics.ts";
import type { AuthorizationRequest, Grant, IdentityProvider } from "./port.ts";
import { authorizeClient } from "./registration/sql.ts";
import * as sql from "./sql.ts";

export type OauthDeps = { pool: Pool; cursors: Cursors; now: () => number; provider: IdentityProvider };

type Kind = "login" | "consent";

/** So many grants of a user to one client are kept: a client that asks at every start would add one each time. */
const MAX_GRANTS = 100;

/** Login, consent and grants of OAuth clients (docs/oauth.md#consent). */
export function oauthService(deps: OauthDeps): ServiceImpl<typeof OauthService> {
  const { pool, cursors, now, provider } = deps;

  /** Returns what the challenge is for. Throws 422 when it is unknown, expired, answered, or of the other kind. */
  async function requireRequest(kind: Kind, challenge: string): Promise<AuthorizationRequest> {
    if (await sql.isClaimed(pool, hashToken(challenge))) throw challengeExpired(kind);
    const found = await (kind === "login" ? provider.findLogin(challenge) : provider.findConsent(challenge));
    if (!found) throw challengeExpired(kind);
    return found;
  }

  /**
   * Claims the challenge, has the provider answer it, and commits what that means. When the provider does not
   * answer, the challenge is free again; after a crash in between it is used up, but nobody holds the verifier.
   */
  async function decide(
    ctx: HandlerContext,
    kind: Kind,
    request: AuthorizationRequest,
    challenge: string,
    toProvider: (verifier: string) => Promise<string | undefined>,
    commit: (tx: Tx) => Promise<void> = async () => {},
  ) {
    const verifier = randomBytes(32).toString("base64url");
    const hash = hashToken(challenge);
    const claim = { hash, verifierHash: hashToken(verifier), expiresAt: request.expiresAt };
    if (!(await sql.claimChallenge(pool, claim))) throw challengeExpired(kind);
    const redirectTo = await toProvider(verifier).catch(async (error: unknown) => {
      await sql.releaseChallenge(pool, hash);
      throw error;
    });
    if (redirectTo === undefined) throw challengeExpired(kind);
    return effect(pool, ctx, async (tx) => {
      await commit(tx);
      return { redirectTo };
    });
  }

  async function reject(ctx: HandlerContext, kind: Kind, challenge: string) {
    const request = await requireRequest(kind, challenge);
    const denied = { clientId: request.client.clientId, clientName: request.client.clientName };
    return decide(
      ctx,
      kind,
      request,
      challenge,
      (verifier) => provider.reject(kind, challenge, { verifier }),
      (tx) =>
        audit(tx, who(ctx), {
          service: "identity",
          accountId: "",
          action: "oauth.consent.denied",
          target: request.subject ?? "",
          metadata: denied,
        }),
    );
  }

  return {
    async getLoginRequest(req) {
      const { client, requestedScope } = await requireRequest("login", req.challenge);
      return { client, requestedScope };
    },

    async completeLogin(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "sign in to an application");
      const request = await requireRequest("login", req.loginChallenge);
      requireSubject(request, userId);
      return decide(ctx, "login", request, req.loginChallenge, (verifier) =>
        provider.acceptLogin(req.loginChallenge, { userId, verifier }),
      );
    },

    rejectLogin: (req, ctx) => reject(ctx, "login", req.loginChallenge),

    async getConsentRequest(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "give consent");
      const request = await requireRequest("consent", req.challenge);
      requireSubject(request, userId);
      const mine = { userId, accountId: undefined };
      const accounts = await listAccountsByUser(pool, mine, { before: undefined, limit: undefined });
      const grantable = accounts.map((row) => ({ ...row, grantableRoles: grantableRoles(row.myRole) }));
      return { ...request, accounts: grantable.sort((a, b) => (a.handle < b.handle ? -1 : 1)) };
    },

    async completeConsent(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "give consent");
      const { consentChallenge, accountId } = req;
      const role = req.role as Grant["role"];
      const request = await requireRequest("consent", consentChallenge);
      requireSubject(request, userId);
      const { clientId, clientName } = request.client;
      const grant: Grant = { id: newId("grt"), userId, clientId, accountId, role };
      await requireGrantable(pool, grant);
      const answer = await decide(
        ctx,
        "consent",
        request,
        consentChallenge,
        (verifier) => provider.acceptConsent(consentChallenge, { grant, verifier }),
        async (tx) => {
          const { id: membershipId } = await requireGrantable(tx, grant);
          const at = new Date(now());
          const expiresAt = new Date(now() + GRANT_SECONDS * 1000);
          await sql.insertGrant(tx, { ...grant, clientName, membershipId, grantedAt: at, expiresAt });
          for (const older of await sql.revokeGrants(tx, { userId, clientId, keep: MAX_GRANTS }, at))
            await recordRevoked(tx, who(ctx), older, { reason: "newer", at });
          await authorizeClient(tx, clientId, at);
          const { id: grantId } = grant;
          await emit(tx, GrantCreatedSchema, accountId, {
            grantId,
            userId,
            clientId,
            clientName,
            accountId,
            role,
          });
          await audit(tx, who(ctx), {
            service: "identity",
            accountId,
            action: "oauth.consent.granted",
            target: grantId,
            metadata: { clientId, clientName, role },
          });
        },
      );
      consents.inc({ decision: role });
      return answer;
    },

    async rejectConsent(req, ctx) {
      const answer = await reject(ctx, "consent", req.consentChallenge);
      consents.inc({ decision: "denied" });
      return answer;
    },

    async listMcpGrants(_req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "see what applications may do");
      return { data: await sql.listGrants(pool, userId, new Date(now())) };
    },

    async revokeMcpGrants(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "revoke access");
      const { clientId } = req;
      const revoked = await transaction(pool, async (tx) => {
        const at = new Date(now());
        const grants = await sql.revokeGrants(tx, { userId, clientId, keep: 0 }, at);
        for (const grant of grants) await recordRevoked(tx, who(ctx), grant, { reason: "user", at });
        return grants;
      });
      // Grants that were revoked before as well: a provider that was away then is told now.
      await provider.revoke({ userId, clientId, grantIds: revoked.map(({ id }) => id) });
      return {};
    },

    async listAccountGrants(req) {
      const { accountId } = req;
      return cursors.page(`grants:${accountId}`, req, (page) =>
        sql.listAccountGrants(pool, accountId, { ...page, now: new Date(now()) }),
      );
    },

    async getAccountGrant({ accountId, grantId }) {
      const of = await sql.findGrantee(pool, accountId, grantId);
      const only = { now: new Date(now()), before: undefined, limit: 1, of };
      const [grant] = of ? await sql.listAccountGrants(pool, accountId, only) : [];
      if (!grant) throw notFound("grant");
      return grant;
    },

    async revokeAccountGrant({ accountId, grantId }, ctx) {
      return transaction(pool, async (tx) => {
        const of = await sql.findGrantee(tx, accountId, grantId);
        if (!of) throw notFound("grant");
        const at = new Date(now());
        // Hydra would end what the member granted in other accounts: tokens stay there, and get nothing any more.
        for (const grant of await sql.revokeAccountGrants(tx, { accountId, ...of }, at))
          await recordRevoked(tx, who(ctx), grant, { reason: "owner", at });
        return {};
      });
    },
  };
}

function grantableRoles(role: RoleName): string[] {
  return role === "reader" ? ["reader"] : ["reader", "editor"];
}

/** Returns the user's membership. Throws 403 when there is none, or its role is too low. */
async function requireGrantable(db: Pool | Tx, { accountId, userId, role }: Grant) {
  const member = await findMember(db, accountId, userId);
  if (!member) throw refuse(403, "not_a_member", "The caller is not a member of this account.");
  if (!atLeast(member.role, role))
    throw refuse(
      403,
      "role_not_grantable",
      `The caller's role there is ${member.role}, which cannot grant ${role}.`,
    );
  return member;
}

function requireSubject({ subject }: AuthorizationRequest, userId: string): void {
  if (subject !== undefined && subject !== userId)
    throw refuse(
      403,
      "subject_mismatch",
      "This request belongs to another user. Sign in as that user, or begin again.",
    );
}

function challengeExpired(kind: Kind) {
  const message = "This request was answered or has expired. Begin again in the application.";
  return invalid(kind === "login" ? "loginChallenge" : "consentChallenge", "challenge_expired", message);
}
