import { newId } from "../../kit/ids.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { recordRevoked } from "./oauth-service.ts";
import { revokeGrant } from "./sql.ts";

/** Records that a grant ended at the provider: a client revoked its token, or a code or token was used twice. */
export function revokedAtProvider({ pool, now }: { pool: Pool; now: () => number }) {
  return (grantId: string): Promise<void> => {
    const by = { caller: { kind: "service" as const, id: "identity", ip: "" }, requestId: newId("req") };
    return transaction(pool, async (tx) => {
      const revoked = await revokeGrant(tx, grantId, new Date(now()));
      if (revoked) await recordRevoked(tx, by, revoked);
    });
  };
}
