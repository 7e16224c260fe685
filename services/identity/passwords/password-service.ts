import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { PasswordChangedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { PasswordService } from "../../../proto/gen/berth/identity/v1/passwords_pb.ts";
import { hashToken } from "../../kit/crypto/bearer-token.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { queueMail } from "../../kit/mail/mail.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type Who, who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid } from "../../kit/rpc/refusals.ts";
import { windowKey } from "../attempts/keys.ts";
import { countWithin, rememberNetworkOf } from "../attempts/limits.ts";
import { clearAttempts } from "../attempts/sql.ts";
import { authenticateUnlimited } from "../tokens/authenticate.ts";
import { revokeAllTokens } from "../tokens/lifecycle.ts";
import { claimEmail, replacePassword } from "../users/sql.ts";
import { checkPassword } from "./check-password.ts";
import { hashPassword, type PasswordCheck, requireStrong } from "./passwords.ts";
import * as sql from "./sql.ts";

type PasswordDeps = { pool: Pool; now: () => number; passwords: PasswordCheck; mails: boolean };

const RESETS_PER_EMAIL = { max: 3, seconds: 3600 };

/** Passwords: changed, or reset by a mailed link (docs/identity.md#passwords). */
export function passwordService(deps: PasswordDeps): ServiceImpl<typeof PasswordService> {
  const { pool, now, passwords } = deps;
  return {
    async changePassword(req, ctx) {
      const { id, userId } = await authenticateUnlimited(pool, ctx, now(), "change the password");
      requireStrong("new", req.new);
      const given = { path: "current", password: req.current };
      const { key, passwordHash } = await checkPassword({ pool, passwords, now }, userId, given);
      const hash = await hashPassword(req.new);
      return transaction(pool, async (tx) => {
        if ((await replacePassword(tx, userId, passwordHash, hash)) === 0)
          throw conflict("conflict", "The password was just changed by another request.");
        await clearAttempts(tx, key);
        const at = new Date(now());
        const end = { userId, except: id, personalToo: false, now: at };
        const ended = await revokeAllTokens(tx, who(ctx), end);
        await emit(tx, PasswordChangedSchema, "", { userId, byLink: false, at: timestampFromDate(at) });
        await auditPassword(tx, who(ctx), "auth.password_change", userId, ended);
        return {};
      });
    },

    async requestPasswordReset(req) {
      if (!deps.mails)
        throw conflict("mail_not_configured", "This installation sends no mail, so it cannot mail a link.");
      const email = req.email.toLowerCase();
      return transaction(pool, async (tx) => {
        if (await countWithin(tx, windowKey("reset", email), RESETS_PER_EMAIL, new Date(now())))
          await queueMail(tx, { kind: "password_reset", address: email, data: {} });
        return {};
      });
    },

    async completePasswordReset(req, ctx) {
      const hash = hashToken(req.token);
      if (!(await sql.findReset(pool, hash, new Date(now())))) throw linkExpired();
      requireStrong("password", req.password);
      const passwordHash = await hashPassword(req.password);
      return transaction(pool, async (tx) => {
        const reset = await sql.consumeReset(tx, hash, new Date(now()));
        const at = new Date(now());
        const claimed = reset && (await claimEmail(tx, { id: reset.userId, passwordHash, now: at }));
        if (!claimed) throw linkExpired();
        const { userId } = reset;
        const caller = { ...who(ctx).caller, kind: "user" as const, id: userId };
        const by = { ...who(ctx), caller };
        const end = { userId, except: undefined, personalToo: claimed.first, now: at };
        await emit(tx, PasswordChangedSchema, "", { userId, byLink: true, at: timestampFromDate(at) });
        await auditPassword(tx, by, "auth.password_reset", userId, await revokeAllTokens(tx, by, end));
        await rememberNetworkOf(tx, claimed.email, caller.ip, at);
        return {};
      });
    },
  };
}

function auditPassword(tx: Tx, by: Who, action: string, userId: string, ended: number): Promise<void> {
  const metadata = { endedSessions: String(ended) };
  return audit(tx, by, { service: "identity", accountId: "", action, target: userId, metadata });
}

function linkExpired() {
  return invalid("token", "link_expired", "This link was used or has expired. Request another one.");
}
