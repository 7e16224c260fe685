import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Addons } from "../addons/addon-keys.ts";
import { resolveForRelease } from "../resolve/release.ts";
import type { ResolvedSets } from "../resolve/resolved-sets.ts";
import type { Scopes } from "../scopes/scopes.ts";
import { insertDoubt, unname } from "../scopes/sql.ts";
import type { DataKeys } from "../seal/data-keys.ts";

type InternalDeps = { pool: Pool; scopes: Scopes; keys: DataKeys; addons: Addons; sets: ResolvedSets };

/** RPCs that the deployer calls. */
export function internalService(deps: InternalDeps): ServiceImpl<typeof InternalService> {
  const { pool, keys } = deps;
  return {
    async announceDeletion({ scopeId }) {
      await insertDoubt(pool, scopeId);
      return {};
    },

    async announceRename({ serviceId }) {
      await insertDoubt(pool, serviceId);
      await unname(pool, serviceId);
      return {};
    },

    async resolveRelease({ serviceId }) {
      const { scope, set } = await resolveForRelease(deps, serviceId);
      const { data, dangling } = set;
      const vault = await keys.loadOrCreate(scope.accountId);
      return {
        data: data.map(({ name, value, sensitive }) => ({ name, value: value!, sensitive })),
        dangling,
        fingerprint: vault.fingerprint(data),
      };
    },
  };
}
