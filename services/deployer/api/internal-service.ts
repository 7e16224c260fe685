import type { ServiceImpl } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { notFound } from "../../kit/rpc/refusals.ts";
import { countResources } from "../accounts/sql.ts";
import { addonKeys } from "../addons/keys.ts";
import type { AddonServers } from "../addons/port.ts";
import { findDeployment } from "../deployments/sql.ts";
import * as sql from "../projects/sql.ts";
import type { Secrets } from "../secrets.ts";
import { isDeployable } from "../terms/services.ts";

export type InternalDeps = { pool: Pool; secrets: Secrets; addonServers: AddonServers };

/** Scopes and addon keys, for the variables service; names, for notifications. */
export function internalService(deps: InternalDeps): ServiceImpl<typeof InternalService> {
  const { pool, secrets, addonServers } = deps;
  return {
    async resolveScope({ accountId, projectId, environmentId, service, serviceId }) {
      const scope = serviceId
        ? await sql.findScopeByService(pool, serviceId)
        : accountId && projectId
          ? await sql.findScopeByPath(pool, { accountId, projectId, environmentId, service })
          : undefined;
      if (!scope) throw notFound(serviceId ? "service" : "project");
      if (environmentId && !scope.environmentId) throw notFound("environment");
      if (service && !scope.serviceId) throw notFound("service");
      return scope;
    },

    async listScopeServices({ projectId, environmentId }) {
      return { services: await sql.listScopeServices(pool, projectId, environmentId) };
    },

    async describeService({ serviceId, version }) {
      const service = await sql.describeService(pool, serviceId);
      if (!service) throw notFound("service");
      if (version === undefined) return service;
      const deployment = await findDeployment(pool, serviceId, version);
      if (!deployment) throw notFound("version");
      const { message: errorMessage, code: errorCode, stage: errorStage } = deployment.errors.at(-1) ?? {};
      const rollout = deployment.warnings.findLast(({ stage }) => stage === "rollout");
      const wasHealthy = deployment.healthyAt !== undefined;
      const why = { errorMessage, errorCode, errorStage, rolloutMessage: rollout?.message };
      return { ...service, deployment: { version, ...why, wasHealthy } };
    },

    async getServiceEnv({ serviceId }) {
      const found = await sql.findServiceEnv(pool, serviceId);
      if (!found) throw notFound("service");
      return found;
    },

    async countResources({ accountId }) {
      return countResources(pool, accountId);
    },

    async getAddonKeys({ serviceId }) {
      const addon = await sql.findAddon(pool, serviceId);
      if (!addon || isDeployable(addon.type)) throw notFound("addon");
      const revision = BigInt(addon.revision);
      if (addon.state !== "ready" || !addon.secret) return { ready: false, keys: [], revision };
      const password = secrets.open(addon.secret, addon.id);
      const address = addonServers.address({ ...addon, port: addon.port ?? undefined });
      const pooler = addon.pooled
        ? addonServers.poolers?.address({ ...addon, serviceId: addon.id })
        : undefined;
      const keys = addonKeys(addon.type, address, addon.id, password, pooler);
      return { ready: true, keys, revision };
    },
  };
}
