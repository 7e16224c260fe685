import { isDeepStrictEqual } from "node:util";
import type { ServiceImpl } from "@connectrpc/connect";
import type {
  CatalogService,
  UpdateServiceRequest,
} from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import {
  EnvironmentCreatedSchema,
  EnvironmentDeletedSchema,
  ProjectCreatedSchema,
  ProjectRenamedSchema,
  ServiceConfiguredSchema,
  ServiceCreatedSchema,
  ServiceRenamedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import { isDuplicate, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import { findEntitlements } from "../accounts/provisioning.ts";
import * as quotas from "../accounts/quotas.ts";
import { holdAccount } from "../accounts/sql.ts";
import { addonName } from "../addons/keys.ts";
import { newPassword } from "../addons/lifecycle.ts";
import type { AddonServers } from "../addons/port.ts";
import { beginRotation } from "../addons/sql.ts";
import { sealTicket } from "../addons/tunnels/ticket.ts";
import { beginFork, findForkStorage, requireForkable, requireForkMoment } from "../backups/fork.ts";
import { archiveShown } from "../backups/point-in-time.ts";
import { accept, stagedInput } from "../deployments/accept/accept.ts";
import { hasDomains } from "../domains/sql.ts";
import { enqueue, notifyReconcilers } from "../due/sql.ts";
import type { AccountImages } from "../images/account-images.ts";
import { reschedule } from "../jobs/start-scheduled.ts";
import type { Announce } from "../projects/announce.ts";
import { deleteProjects } from "../projects/delete-projects.ts";
import { deleteServices } from "../projects/delete-services.ts";
import { markEnvironments, pruneProjects } from "../projects/deletion-sql.ts";
import {
  accountDeleted,
  holdEnvironment,
  nameTaken,
  refuseAddon,
  refuseAddonName,
  requireEnvironment,
  requireKnown,
  requireLocked,
  requireProject,
  requireService,
  serviceDeleting,
  serviceHasDomains,
  serviceStaged,
} from "../projects/require.ts";
import {
  checkSource,
  hasEnv,
  mergeConfig,
  refuseAutoscaling,
  requireGrowthUpwards,
} from "../projects/service-config.ts";
import type { EnvironmentPath } from "../projects/services-sql.ts";
import * as services from "../projects/services-sql.ts";
import * as sql from "../projects/sql.ts";
import { moveAddresses } from "../releases/dirty-sql.ts";
import type { Secrets } from "../secrets.ts";
import type { StoredSource } from "../sources/stored-source.ts";
import { requireGrowable, requireRunnable, resumeIfAllowed } from "../suspension/suspension.ts";
import { isAddon, isDeployable } from "../terms/services.ts";
import { isPrivate, type StoredConfig } from "../terms/stored-config.ts";
import { resizeUsage } from "../usage/intervals.ts";
import { asksOfServer, requireChange, requireChoice, serverShown } from "./addon-config.ts";
import { promote } from "./promote.ts";
import { streamEnvironment } from "./streams/environment.ts";
import type { FollowedEnvironments } from "./streams/followed-environments.ts";
import { type ToService, withArchive } from "./to-service.ts";

export type CatalogDeps = {
  pool: Pool;
  cursors: Cursors;
  secrets: Secrets;
  announce: Announce;
  images: AccountImages;
  entitlementsOf: EntitlementsOf;
  followed: FollowedEnvironments;
  /** Whether services can be scaled by the CPU that they use. */
  autoscales: boolean;
  toService: ToService;
  addonServers: Pick<AddonServers, "postgresEngine" | "backups" | "choiceOf" | "describe" | "cannotGrow">;
};

/** Projects, environments and services (docs/catalog.md#services). */
export function catalogService(deps: CatalogDeps): ServiceImpl<typeof CatalogService> {
  const { pool, cursors, secrets, announce, images, entitlementsOf, autoscales, toService } = deps;

  /** Returns source and configuration of a service as a request wants them. Throws what forbids them. */
  async function checkChange(tx: Tx, service: services.LockedService, request: UpdateServiceRequest) {
    const { source, config, unsetEnv } = request;
    if (!autoscales) refuseAutoscaling(config);
    const changed = {
      source: source ? checkSource(service.type, source) : service.source,
      config: mergeConfig(service.type, service.config, config, unsetEnv),
    };
    if (isPrivate(changed.config) && (await hasDomains(tx, service.id))) throw serviceHasDomains();
    await quotas.requireScale(tx, entitlementsOf, service, changed.config);
    await requireGrowable(tx, service, changed.config);
    if (source) await images.require(tx, request.accountId, "source.image", changed.source.image);
    return changed;
  }

  return {
    async createProject({ accountId, name }, ctx) {
      return effect(pool, ctx, async (tx) => {
        if (!(await holdAccount(tx, accountId))) throw accountDeleted();
        await quotas.requireProject(tx, entitlementsOf, accountId);
        const project = await sql.insertProject(tx, newId("prj"), accountId, name);
        if (!project) throw nameTaken("project");
        await emit(tx, ProjectCreatedSchema, accountId, { accountId, projectId: project.id });
        await auditWrite(tx, ctx, accountId, "project.create", project);
        return project;
      });
    },

    async listProjects(request) {
      const { accountId } = request;
      return cursors.page(`projects ${accountId}`, request, ({ before, limit }) =>
        sql.listProjects(pool, accountId, before, limit),
      );
    },

    async getProject({ accountId, projectId }) {
      return requireProject(pool, accountId, projectId);
    },

    async updateProject({ accountId, projectId, name }, ctx) {
      return transaction(pool, async (tx) => {
        const renamed = await sql.renameProject(tx, accountId, projectId, name).catch((error) => {
          throw isDuplicate(error, "projects_name") ? nameTaken("project") : error;
        });
        if (!renamed) throw notFound("project");
        const { formerName, ...project } = renamed;
        if (formerName !== name) await moveAddresses(tx, "project", projectId);
        await auditWrite(tx, ctx, accountId, "project.update", project);
        await emit(tx, ProjectRenamedSchema, accountId, { accountId, projectId, name });
        return project;
      });
    },

    async deleteProject({ accountId, projectId, confirmImpact }, ctx) {
      const project = await requireProject(pool, accountId, projectId);
      const announcement = await announce(projectId);
      return transaction(pool, async (tx) => {
        const { backupDays } = await findEntitlements(tx, entitlementsOf, accountId);
        const deletion = { confirmed: confirmImpact, byUserId: who(ctx).caller.id, backupDays };
        if ((await deleteProjects(tx, accountId, [projectId], deletion)) === 0) throw notFound("project");
        await auditWrite(tx, ctx, accountId, "project.delete", project);
        announcement.requireValid();
        return {};
      });
    },

    async createEnvironment({ accountId, projectId, name }, ctx) {
      return effect(pool, ctx, async (tx) => {
        if (!(await sql.holdProject(tx, accountId, projectId))) throw notFound("project");
        const environment = await sql.insertEnvironment(tx, newId("env"), accountId, projectId, name);
        if (!environment) throw nameTaken("environment");
        const event = { accountId, projectId, environmentId: environment.id };
        await emit(tx, EnvironmentCreatedSchema, accountId, event);
        await auditWrite(tx, ctx, accountId, "environment.create", environment);
        return environment;
      });
    },

    async listEnvironments(request) {
      const { accountId, projectId } = request;
      await requireProject(pool, accountId, projectId);
      return cursors.page(`environments ${projectId}`, request, ({ before, limit }) =>
        sql.listEnvironments(pool, projectId, before, limit),
      );
    },

    async getEnvironment(path) {
      return requireEnvironment(pool, path);
    },

    async updateEnvironment({ name, ...path }, ctx) {
      await requireEnvironment(pool, path);
      return transaction(pool, async (tx) => {
        const renamed = await sql.renameEnvironment(tx, path, name).catch((error) => {
          throw isDuplicate(error, "environments_name") ? nameTaken("environment") : error;
        });
        if (!renamed) throw notFound("environment");
        const { formerName, ...environment } = renamed;
        if (formerName !== name) await moveAddresses(tx, "environment", environment.id);
        await auditWrite(tx, ctx, path.accountId, "environment.update", environment);
        return environment;
      });
    },

    async deleteEnvironment({ accountId, projectId, environmentId, confirmImpact }, ctx) {
      const environment = await requireEnvironment(pool, { accountId, projectId, environmentId });
      const project = await requireProject(pool, accountId, projectId);
      const announcement = await announce(environmentId);
      return transaction(pool, async (tx) => {
        if ((await markEnvironments(tx, "id", [environmentId])).length === 0) throw notFound("environment");
        const path = { accountId, projectId };
        const { backupDays } = await findEntitlements(tx, entitlementsOf, accountId);
        const within = { accountId, backupDays };
        const ids = [environmentId];
        const deleted = await deleteServices(tx, "environment_id", ids, confirmImpact, within);
        const names = { name: environment.name, projectName: project.name };
        const event = { ...path, environmentId, ...names, byUserId: who(ctx).caller.id };
        await emit(tx, EnvironmentDeletedSchema, accountId, { ...event, services: deleted.length });
        await auditWrite(tx, ctx, accountId, "environment.delete", environment);
        await pruneProjects(tx, [projectId]);
        announcement.requireValid();
        return {};
      });
    },

    async createService(request, ctx) {
      const { accountId, projectId, environmentId, name, type, from } = request;
      await requireEnvironment(pool, request);
      const { backups } = deps.addonServers;
      if (from) await requireForkable(backups, type);
      const at = from && (await requireForkMoment(pool, backups, accountId, from));
      const source = checkSource(type, request.source);
      if (!autoscales) refuseAutoscaling(request.config);
      const config = mergeConfig(type, undefined, request.config);
      if (from) {
        config.storageGib ??= await findForkStorage(pool, accountId, from);
        requireGrowthUpwards(config, "storageMaxGib");
      }
      await requireChoice(deps.addonServers, type, config);
      const staged = request.staged ?? false;
      const addonState = isDeployable(type) || staged ? undefined : "provisioning";
      const id = newId("svc");
      const path = { accountId, projectId, environmentId };
      return effect(pool, ctx, async (tx) => {
        await holdEnvironment(tx, path);
        await quotas.requireService(tx, entitlementsOf, { accountId, type, config });
        // A web, worker or cron service runs once it is deployed.
        if (!isDeployable(type)) await requireRunnable(tx, { accountId, type }, config);
        await images.require(tx, accountId, "source.image", source.image);
        const service = { id, ...path, name, type, source, config, staged, addonState } as const;
        if (!(await services.insertService(tx, service))) throw nameTaken("service");
        if (type === "cron") await reschedule(tx, id, config);
        const requestedBy = who(ctx).caller.id;
        const fork = from && (await beginFork(tx, { accountId, serviceId: id, type, from, at, requestedBy }));
        const made = await requireService(tx, { ...path, service: name });
        await emit(tx, ServiceCreatedSchema, accountId, {
          ...{ ...path, serviceId: id, name, type },
          ...{ hasConfigEnv: hasEnv(config), namedAt: made.createdAt },
        });
        const forked = fork && { from: fork.source, backup: fork.backup };
        await auditWrite(tx, ctx, accountId, "service.create", { id, name }, { name, ...forked });
        if (fork?.isNew)
          await auditWrite(
            tx,
            ctx,
            accountId,
            "backup.create",
            { id: fork.backup },
            { serviceId: fork.source, ...(at && { at: at.toISOString() }) },
          );
        await notifyReconcilers(tx);
        return toService(made);
      });
    },

    async listServices(request) {
      const { accountId, projectId, environmentId } = request;
      await requireEnvironment(pool, { accountId, projectId, environmentId });
      const { data, page } = await cursors.page(`services ${environmentId}`, request, ({ before, limit }) =>
        services.listServices(pool, environmentId, before, limit),
      );
      return { data: data.map(toService), page };
    },

    async getService(path) {
      const row = await requireService(pool, path);
      const service = toService(row);
      const { id: serviceId, type, addonEngine } = row;
      if (!isAddon(type)) return service;
      const addon = { serviceId, type, environmentId: path.environmentId, engine: addonEngine ?? undefined };
      const { addonServers } = deps;
      const [server, archive] = await Promise.all([
        serverShown(addonServers, addon),
        archiveShown(addonServers.backups, addon),
      ]);
      return { ...withArchive(service, archive), server };
    },

    async updateService(request, ctx) {
      const { source, config, unsetEnv, name = request.service } = request;
      const renames = name !== request.service;
      const configures = source !== undefined || config !== undefined || unsetEnv.length > 0;
      if (config && asksOfServer(config))
        await requireChange(
          deps.addonServers,
          request.environmentId,
          await requireService(pool, request),
          config,
        );
      const announced = renames || hasEnv(config) ? await requireService(pool, request) : undefined;
      if (announced && renames) refuseAddonName(announced.type);
      const announcement = announced && (await announce(announced.id, renames ? "rename" : undefined));
      return transaction(pool, async (tx) => {
        if (renames) await sql.lockNames(tx, request);
        const service = await requireLocked(tx, request);
        // A service that was created meanwhile under the same name is another one.
        if (announced && announced.id !== service.id) throw notFound("service");
        if (!configures && request.name === undefined)
          throw invalid("", "empty_patch", "Send name, source, config or unsetEnv.");
        const change = configures ? await checkChange(tx, service, request) : undefined;
        if (service.deleting) throw serviceDeleting();
        if (change) {
          await applyChange(tx, request, service, change);
          await resumeIfAllowed(tx, service, change.config);
        }
        if (renames) await rename(tx, request, service, name);
        const metadata = { name, ...(renames && { formerName: service.name }) };
        if (change || renames)
          await auditWrite(tx, ctx, request.accountId, "service.update", service, metadata);
        const updated = await requireService(tx, { ...request, service: name });
        announcement?.requireValid();
        return toService(updated);
      });
    },

    async deleteService(request, ctx) {
      const { accountId, confirmImpact } = request;
      const { id } = await requireService(pool, request);
      const described = await sql.describeService(pool, id);
      const announcement = await announce(id);
      return transaction(pool, async (tx) => {
        const service = await requireLocked(tx, request);
        // A service that was created meanwhile under the same name is another one.
        if (service.id !== id) throw notFound("service");
        if (service.deleting) return {};
        const { projectName = "", environmentName = "" } = described ?? {};
        const alone = { projectName, environmentName, byUserId: who(ctx).caller.id };
        const { backupDays } = await findEntitlements(tx, entitlementsOf, accountId);
        const within = { accountId, backupDays };
        await deleteServices(tx, "id", [id], confirmImpact, within, alone);
        await auditWrite(tx, ctx, accountId, "service.delete", service);
        announcement.requireValid();
        return {};
      });
    },

    followEnvironment: (request, { signal }) => streamEnvironment(deps, request, signal),

    async applyEnvironment(path, ctx) {
      await requireEnvironment(pool, path);
      return effect(pool, ctx, async (tx) => {
        await holdEnvironment(tx, path);
        const staged = await services.lockStaged(tx, path.environmentId);
        for (const { type } of staged) requireKnown(type);
        const applied = staged.map((service) => service.id);
        await services.unstage(tx, applied);
        for (const service of staged) {
          const input = stagedInput(service);
          if (input || !isDeployable(service.type)) await requireRunnable(tx, service, service.config);
          if (!input) continue;
          if ("image" in input)
            await images.require(tx, path.accountId, `${service.name}.source.image`, input.image);
          await accept(tx, who(ctx), service, input);
          await resumeIfAllowed(tx, service, service.config);
        }
        const { environmentId: id } = path;
        if (applied.length > 0) await auditWrite(tx, ctx, path.accountId, "environment.apply", { id });
        await enqueue(tx, applied);
        return { applied };
      });
    },

    async restartService(request, ctx) {
      return effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        refuseAddon(service.type, "restarted");
        if (service.deleting) throw serviceDeleting();
        if (service.staged) throw serviceStaged();
        await requireRunnable(tx, service, service.config);
        if ((await services.rollLive(tx, service.id)) === 0)
          throw conflict("service_not_live", "The service has no live release. Deploy it first.");
        await resumeIfAllowed(tx, service, service.config);
        await auditWrite(tx, ctx, request.accountId, "service.restart", service);
        await enqueue(tx, [service.id]);
        return toService(await requireService(tx, request));
      });
    },

    async rotateCredentials(request, ctx) {
      return effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        if (isDeployable(service.type))
          throw invalid("service", "not_addon", `A ${service.type} service has no credentials.`);
        if (service.deleting) throw serviceDeleting();
        const sealed = secrets.seal(newPassword(), service.id);
        if (!(await beginRotation(tx, service.id, sealed)))
          throw conflict("service_not_ready", "The addon has no credentials yet.");
        await auditWrite(tx, ctx, request.accountId, "service.rotate_credentials", service);
        await enqueue(tx, [service.id]);
        return toService(await requireService(tx, request));
      });
    },

    async openTunnel(request, ctx) {
      return effect(pool, ctx, async (tx) => {
        const service = await requireService(tx, request);
        if (isDeployable(service.type))
          throw invalid("service", "not_addon", `A ${service.type} service has no tunnel: it is no addon.`);
        if (service.deleting) throw serviceDeleting();
        if (service.addonState !== "ready")
          throw conflict("service_not_ready", "The addon has no server yet.");
        await auditWrite(tx, ctx, request.accountId, "service.tunnel", service);
        const { password = newPassword() } = request;
        const name = service.type === "postgres" ? addonName(service.id) : undefined;
        const ticket = sealTicket(secrets, service.id, password, Date.now());
        return { ...ticket, user: name, password, database: name };
      });
    },

    async promoteService(request, ctx) {
      const { accountId, service: formerName, over: name } = request;
      return effect(pool, ctx, async (tx) => {
        const { id, former } = await promote(tx, request, name);
        await auditWrite(tx, ctx, accountId, "service.promote", { id }, { name, formerName, over: former });
        return toService(await requireService(tx, { ...request, service: name }));
      });
    },
  };
}

type Change = { source: StoredSource; config: StoredConfig };

/** Stores a service's source and configuration; replicas and size reach what runs. */
async function applyChange(
  tx: Tx,
  { accountId, projectId, environmentId }: EnvironmentPath,
  service: services.LockedService,
  { source, config }: Change,
) {
  await services.updateService(tx, service.id, source, config);
  const { schedule, timeZone } = service.config;
  if (config.schedule !== schedule || config.timeZone !== timeZone) await reschedule(tx, service.id, config);
  if (!isDeepStrictEqual(service.config.env ?? {}, config.env ?? {})) {
    const event = { accountId, projectId, environmentId, serviceId: service.id };
    await emit(tx, ServiceConfiguredSchema, accountId, event);
  }
  if (!isDeployable(service.type)) {
    await resizeUsage(tx, service.id, config.size);
    await enqueue(tx, [service.id]);
  } else if ((await services.rescale(tx, service.id, config)) > 0) await enqueue(tx, [service.id]);
}

/** Gives a service another name, which its address follows. Throws 409 name_taken. */
async function rename(tx: Tx, path: EnvironmentPath, service: services.LockedService, name: string) {
  const { accountId, projectId, environmentId } = path;
  const { id: serviceId, type } = service;
  const renamed = await services.renameService(tx, serviceId, name).catch((error) => {
    throw isDuplicate(error, "services_name") ? nameTaken("service") : error;
  });
  await moveAddresses(tx, "service", serviceId);
  const event = { accountId, projectId, environmentId, serviceId, name, type, namedAt: renamed!.namedAt };
  await emit(tx, ServiceRenamedSchema, accountId, event);
}

function auditWrite(
  tx: Tx,
  ctx: Parameters<typeof who>[0],
  accountId: string,
  action: string,
  target: { id: string; name?: string },
  metadata: Record<string, string> = target.name ? { name: target.name } : {},
) {
  return audit(tx, who(ctx), { service: "deployer", accountId, action, target: target.id, metadata });
}
