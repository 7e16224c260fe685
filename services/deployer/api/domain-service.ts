import type { ServiceImpl } from "@connectrpc/connect";
import type { DomainService } from "../../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import { requireDomainQuota } from "../accounts/quotas.ts";
import type { DomainSettings } from "../domains/config.ts";
import { requireHost } from "../domains/host.ts";
import { recordsOf } from "../domains/records.ts";
import * as sql from "../domains/sql.ts";
import { requireLocked, requireService, serviceDeleting } from "../projects/require.ts";
import { isPrivate } from "../terms/stored-config.ts";

export type DomainApiDeps = {
  pool: Pool;
  cursors: Cursors;
  entitlementsOf: EntitlementsOf;
  settings: DomainSettings;
  /** Has due domains looked up now. */
  wake: () => void;
};

/** The host names of services (docs/domains.md#adding-a-domain). */
export function domainService(deps: DomainApiDeps): ServiceImpl<typeof DomainService> {
  const { pool, cursors, entitlementsOf, settings, wake } = deps;
  const toDomain = (row: sql.DomainRow) => ({ ...row, records: recordsOf(row, settings, row.found) });

  return {
    async createDomain(request, ctx) {
      const { accountId } = request;
      const host = requireHost("host", request.host, settings);
      const redirectTo =
        request.redirectTo === undefined ? undefined : requireTarget(request.redirectTo, host, settings);
      const made = await effect(pool, ctx, async (tx) => {
        const { id: serviceId, type, config, deleting } = await requireLocked(tx, request);
        if (type !== "web")
          throw invalid(
            "service",
            "not_web",
            `A ${type} service has no address; only web services have domains.`,
          );
        if (isPrivate(config))
          throw invalid(
            "service",
            "not_public",
            "A private service has no domains. Set config.public to true first.",
          );
        if (deleting) throw serviceDeleting();
        await requireDomainQuota(tx, entitlementsOf, accountId, sql.countDomains);
        const id = newId("dom");
        const domain = await sql.insertDomain(tx, { id, accountId, serviceId, host, redirectTo });
        if (!domain) throw domainExists();
        await auditDomain(tx, ctx, "domain.create", domain);
        return toDomain(domain);
      });
      wake();
      return made;
    },

    async listDomains(request) {
      const { id } = await requireService(pool, request);
      const { data, page } = await cursors.page(`domains ${id}`, request, ({ before, limit }) =>
        sql.listDomains(pool, id, before, limit),
      );
      return { data: data.map(toDomain), page };
    },

    async getDomain(request) {
      const { id } = await requireService(pool, request);
      return toDomain((await sql.findDomain(pool, id, request.domainId)) ?? throwNotFound());
    },

    async deleteDomain(request, ctx) {
      const { id } = await requireService(pool, request);
      await transaction(pool, async (tx) => {
        const domain = (await sql.markDomain(tx, id, request.domainId)) ?? throwNotFound();
        await auditDomain(tx, ctx, "domain.delete", domain);
      });
      wake();
      return {};
    },

    async checkDomain(request, ctx) {
      const { id } = await requireService(pool, request);
      const hurried = await effect(pool, ctx, async (tx) =>
        toDomain((await sql.hurryDomain(tx, id, request.domainId)) ?? throwNotFound()),
      );
      wake();
      return hurried;
    },
  };
}

function requireTarget(given: string, host: string, settings: DomainSettings): string {
  const target = requireHost("redirectTo", given, { ...settings, wildcard: false });
  if (target === host) throw invalid("redirectTo", "invalid_host", "A domain cannot redirect to itself.");
  return target;
}

function domainExists() {
  return conflict(
    "domain_exists",
    "A service of this account has this domain already. Remove it there first.",
  );
}

function throwNotFound(): never {
  throw notFound("domain");
}

async function auditDomain(
  tx: Tx,
  ctx: Parameters<typeof who>[0],
  action: string,
  { id, accountId, serviceId, host }: sql.DomainRow,
): Promise<void> {
  const metadata = { host, serviceId };
  await audit(tx, who(ctx), { service: "deployer", accountId, action, target: id, metadata });
}
