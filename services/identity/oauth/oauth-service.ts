import { randomBytes } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { OauthService } from "../../../proto/gen/berth/identity/v1/oauth_pb.ts";
import { hashToken } from "../../kit/crypto/bearer-token.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { invalid, notFound } from "../../kit/rpc/refusals.ts";
import { recordRevoked } from "../grants/lifecycle.ts";
import type { Grant } from "../grants/sql.ts";
import * as grants from "../grants/sql.ts";
import { authenticateUnlimited } from "../tokens/authenticate.ts";
import { commitGrant, listGrantable, recordDenied, requireGrantable, requireSubject } from "./consent.ts";
import { consents } from "./metrics.ts";
import type { AuthorizationRequest, IdentityProvider } from "./port.ts";
import * as challenges from "./sql.ts";

export type OauthDeps = { pool: Pool; cursors: Cursors; now: () => number; provider: IdentityProvider };

type Kind = "login" | "consent";

/** Login, consent and grants of OAuth clients (docs/oauth.md#consent). */
export function oauthService(deps: OauthDeps): ServiceImpl<typeof OauthService> {
  const { pool, cursors, now, provider } = deps;

  /** Returns the request of a challenge. Throws 422 when it is unknown, expired, answered, or of the other kind. */
  async function requireRequest(kind: Kind, challenge: string): Promise<AuthorizationRequest> {
    if (await challenges.isClaimed(pool, hashToken(challenge))) throw challengeExpired(kind);
    const found = await (kind === "login" ? provider.findLogin(challenge) : provider.findConsent(challenge));
    if (!found) throw challengeExpired(kind);
    return found;
  }

  /**
   * Claims the challenge, has the provider answer it, and commits the outcome. When the provider does not answer, the
   * challenge is released; after a crash in between it stays used, but nobody holds the verifier.
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
    if (!(await challenges.claimChallenge(pool, claim))) throw challengeExpired(kind);
    const redirectTo = await toProvider(verifier).catch(async (error: unknown) => {
      await challenges.releaseChallenge(pool, hash);
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
    return decide(
      ctx,
      kind,
      request,
      challenge,
      (verifier) => provider.reject(kind, challenge, { verifier }),
      (tx) => recordDenied(tx, who(ctx), { userId: request.subject ?? "", client: request.client }),
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
      return { ...request, accounts: await listGrantable(pool, userId) };
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
        (tx) => commitGrant(tx, who(ctx), { ...grant, clientName }, new Date(now())),
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
      return { data: await grants.listGrants(pool, userId, new Date(now())) };
    },

    async revokeMcpGrants(req, ctx) {
      const { userId } = await authenticateUnlimited(pool, ctx, now(), "revoke access");
      const { clientId } = req;
      const revoked = await transaction(pool, async (tx) => {
        const at = new Date(now());
        const ended = await grants.revokeGrants(tx, { userId, clientId, keep: 0 }, at);
        await recordRevoked(tx, who(ctx), ended, { reason: "user", at });
        return ended;
      });
      // Also for grants that are already revoked: the provider may have been unavailable at the time.
      await provider.revoke({ userId, clientId, grantIds: revoked.map(({ id }) => id) });
      return {};
    },

    async listAccountGrants(req) {
      const { accountId } = req;
      return cursors.page(`grants:${accountId}`, req, (page) =>
        grants.listAccountGrants(pool, accountId, { ...page, now: new Date(now()) }),
      );
    },

    async getAccountGrant({ accountId, grantId }) {
      const of = await grants.findGrantee(pool, accountId, grantId);
      const only = { now: new Date(now()), before: undefined, limit: 1, of };
      const [grant] = of ? await grants.listAccountGrants(pool, accountId, only) : [];
      if (!grant) throw notFound("grant");
      return grant;
    },

    async revokeAccountGrant({ accountId, grantId }, ctx) {
      return transaction(pool, async (tx) => {
        const of = await grants.findGrantee(tx, accountId, grantId);
        if (!of) throw notFound("grant");
        const at = new Date(now());
        // Hydra would also end the member's grants in other accounts, so tokens stay there; they are refused here.
        const ended = await grants.revokeAccountGrants(tx, { accountId, ...of }, at);
        await recordRevoked(tx, who(ctx), ended, { reason: "owner", at });
        return {};
      });
    },
  };
}

function challengeExpired(kind: Kind) {
  const message = "This request was answered or has expired. Begin again in the application.";
  return invalid(kind === "login" ? "loginChallenge" : "consentChallenge", "challenge_expired", message);
}
