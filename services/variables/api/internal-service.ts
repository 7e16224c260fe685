import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Addons } from "../addons/addon-keys.ts";
import { resolveForRelease } from "../resolve/release.ts";
import type { ResolvedSets } from "../resolve/resolved-sets.ts";
import type { Scopes } from "../scopes/scopes.ts";
import { clearName } from "../scopes/sql.ts";
import { markStale } from "../scopes/stale-sql.ts";
import type { DataKeys } from "../seal/data-keys.ts";

type InternalDeps = { pool: Pool; scopes: Scopes; keys: DataKeys; addons: Addons; sets: ResolvedSets };

/** RPCs that the deployer calls. */
export function internalService(deps: InternalDeps): ServiceImpl<typeof InternalService> {
  const { pool } = deps;
  return {
    async announceDeletion({ scopeId }) {
      await markStale(pool, scopeId);
      return {};
    },

    async announceRename({ serviceId }) {
      await markStale(pool, serviceId);
      await clearName(pool, serviceId);
      return {};
    },

    resolveRelease: ({ serviceId }) => resolveForRelease(deps, serviceId),
  };
}
