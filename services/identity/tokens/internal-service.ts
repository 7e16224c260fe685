import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/errors.ts";
import { SESSION_IDLE_SECONDS } from "./authenticate.ts";
import { findCallerByToken } from "./sql.ts";

/** RPCs that gateways call. */
export function internalService(deps: {
  pool: Pool;
  now: () => number;
}): ServiceImpl<typeof InternalService> {
  const { pool, now } = deps;
  return {
    async lookupCaller(req) {
      const hash = Buffer.from(req.tokenHash);
      const idleSeconds = SESSION_IDLE_SECONDS;
      const found = await findCallerByToken(pool, { hash, now: new Date(now()), idleSeconds });
      if (!found) throw refuse(401, "unauthenticated", "The token is unknown or no longer valid.");
      return found;
    },
  };
}
