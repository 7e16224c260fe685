import type { ServiceImpl } from "@connectrpc/connect";
import type { RegistryService } from "../../../proto/gen/berth/deployer/v1/registries_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, notFound, refuse } from "../../kit/rpc/refusals.ts";
import { holdAccount } from "../accounts/sql.ts";
import { type RegistryRules, requireRegistryHost } from "../images/registries/host.ts";
import type { RegistryLogins } from "../images/registries/logins.ts";
import * as sql from "../images/registries/sql.ts";
import { accountDeleted } from "../projects/require.ts";

type RegistryDeps = { pool: Pool; cursors: Cursors; logins: RegistryLogins; rules: RegistryRules };

/** The logins of accounts for registries (docs/images.md#private-registries). */
export function registryService(deps: RegistryDeps): ServiceImpl<typeof RegistryService> {
  const { pool, cursors, logins, rules } = deps;
  return {
    async createRegistry({ accountId, user, token, ...request }, ctx) {
      const host = requireRegistryHost(request.host, rules);
      return effect(pool, ctx, async (tx) => {
        if (!(await holdAccount(tx, accountId))) throw accountDeleted();
        await sql.lockRegistriesOf(tx, accountId);
        await requireQuota(tx, accountId);
        const id = newId("reg");
        const sealed = logins.seal(token, id);
        const made = await sql.insertRegistry(tx, { id, accountId, host, user, sealed });
        if (!made) throw registryExists(host);
        await auditRegistry(tx, ctx, accountId, "registry.create", made);
        return made;
      });
    },

    async listRegistries(request) {
      const { accountId } = request;
      return cursors.page(`registries ${accountId}`, request, ({ before, limit }) =>
        sql.listRegistries(pool, accountId, before, limit),
      );
    },

    async getRegistry({ accountId, registryId: id }) {
      const found = await sql.getRegistry(pool, { accountId, id });
      if (!found) throw notFound("registry");
      return found;
    },

    async updateRegistry({ accountId, registryId: id, user, token }, ctx) {
      return transaction(pool, async (tx) => {
        const sealed = logins.seal(token, id);
        const updated = await sql.updateRegistry(tx, { accountId, id }, { user, sealed });
        if (!updated) throw notFound("registry");
        await auditRegistry(tx, ctx, accountId, "registry.update", updated);
        return updated;
      });
    },

    async deleteRegistry({ accountId, registryId: id }, ctx) {
      return transaction(pool, async (tx) => {
        const deleted = await sql.deleteRegistry(tx, { accountId, id });
        if (!deleted) throw notFound("registry");
        await auditRegistry(tx, ctx, accountId, "registry.delete", deleted);
        return {};
      });
    },
  };
}

async function requireQuota(tx: Tx, accountId: string): Promise<void> {
  const limit = sql.MAX_REGISTRIES;
  if ((await sql.countRegistries(tx, accountId)) < limit) return;
  const message = `An account has at most ${limit} registries. Delete one first.`;
  throw refuse(403, "quota_exceeded", message, { context: { limit } });
}

function registryExists(host: string) {
  return conflict(
    "registry_exists",
    `The account has a login for ${host} already. Replace its token, or delete it first.`,
  );
}

async function auditRegistry(
  tx: Tx,
  ctx: Parameters<typeof who>[0],
  accountId: string,
  action: string,
  { id, host, user }: sql.RegistryRow,
): Promise<void> {
  await audit(tx, who(ctx), { service: "deployer", accountId, action, target: id, metadata: { host, user } });
}
