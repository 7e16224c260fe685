import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { findHandle, listMemberRecipients, listUserRecipients } from "../accounts/sql.ts";
import { findLiveGrant, recordUse } from "../grants/sql.ts";
import { findBootstrap } from "../installation/sql.ts";
import { registrations } from "../oauth/metrics.ts";
import type { IdentityProvider } from "../oauth/port.ts";
import type { clientRegistration } from "../oauth/registration/register.ts";
import { SESSION_IDLE_SECONDS } from "../tokens/authenticate.ts";
import { findCallerByToken } from "../tokens/sql.ts";

/** The methods for other services: gateways look up callers, notifications looks up recipients. */
export function internalService(deps: {
  pool: Pool;
  now: () => number;
  provider: IdentityProvider;
  register: ReturnType<typeof clientRegistration>;
}): ServiceImpl<typeof InternalService> {
  const { pool, now, provider } = deps;
  return {
    async lookupCaller(req) {
      const hash = Buffer.from(req.tokenHash);
      const idleSeconds = SESSION_IDLE_SECONDS;
      const found = await findCallerByToken(pool, { hash, now: new Date(now()), idleSeconds });
      if (!found) throw refuse(401, "unauthenticated", "The token is unknown or no longer valid.");
      return found;
    },

    async lookupMachine({ token }) {
      const verified = await provider.verifyAccessToken(token);
      const at = new Date(now());
      const grant = verified && (await findLiveGrant(pool, verified.grantId, at));
      if (!grant) throw refuse(401, "unauthenticated", "The token is unknown or no longer valid.");
      await recordUse(pool, grant.id, at);
      const { id, userId, accountId, role, membership } = grant;
      return {
        userId,
        tokenId: id,
        memberships: membership === null ? [] : [{ accountId, role: membership }],
        roleCap: role,
        accountId,
        expiresAt: timestampFromDate(verified.expiresAt),
        kind: "machine",
        toolsOnly: verified.toolsOnly,
      };
    },

    async listRecipients({ accountId, userIds }) {
      if (accountId === undefined) return { users: await listUserRecipients(pool, userIds) };
      const [accountHandle = "", users] = await Promise.all([
        findHandle(pool, accountId),
        listMemberRecipients(pool, accountId),
      ]);
      return { accountHandle, users };
    },

    async listOperators() {
      const first = await findBootstrap(pool);
      if (!first) return {};
      const users = await listMemberRecipients(pool, first.accountId);
      return { accountId: first.accountId, users: users.filter(({ role }) => role === "owner") };
    },

    async registerClient({ metadata, ip }, ctx) {
      const by = { ...who(ctx), caller: { kind: "anonymous" as const, id: "", ip } };
      const answer = await deps.register(metadata, by);
      const { result } = answer;
      registrations.inc({ result: result.case === "client" ? "registered" : result.value.error });
      return answer;
    },
  };
}
