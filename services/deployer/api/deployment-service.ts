import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromMs, timestampNow } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { DeploymentService, DryRunSchema } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { answered, effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { type Cursors, foreignCursor } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import { findEntitlements } from "../accounts/provisioning.ts";
import type { Builder } from "../builder/port.ts";
import { readLog } from "../builds/log-sql.ts";
import { requireBuild } from "../builds/require-build.ts";
import { accept, type DeploymentInput } from "../deployments/accept/accept.ts";
import { requireArchive, UPLOAD_SECONDS, UPLOAD_TYPE } from "../deployments/accept/archive-upload.ts";
import { type ChooseInput, configOf, dryRun } from "../deployments/accept/dry-run.ts";
import { findRestorable } from "../deployments/accept/rollback.ts";
import { cancelDeployment } from "../deployments/fail-deployment.ts";
import { requireDeployment } from "../deployments/require-deployment.ts";
import * as sql from "../deployments/sql.ts";
import { hasDomains } from "../domains/sql.ts";
import { enqueue } from "../due/sql.ts";
import type { AccountImages } from "../images/account-images.ts";
import { checkImage } from "../images/image-reference.ts";
import {
  refuseAddon,
  requireLocked,
  requireService,
  serviceDeleting,
  serviceHasDomains,
  serviceStaged,
} from "../projects/require.ts";
import { type LockedService, type ServicePath, type StagedSource, stage } from "../projects/services-sql.ts";
import { findReleaseCommand } from "../runs/sql.ts";
import type { LogStream, Runtime } from "../runtime/port.ts";
import { archiveKey, type Secrets } from "../secrets.ts";
import { keepNewest } from "../shared/clip-log.ts";
import type { ObjectStore } from "../store/port.ts";
import { requireRunnable, resumeIfAllowed } from "../suspension/suspension.ts";
import { imageArtifact } from "../terms/artifact.ts";
import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import { isPrivate } from "../terms/stored-config.ts";
import type { EarlyVariables } from "../variables/early-variables.ts";
import type { ResolveVariables } from "../variables/variables-client.ts";
import { type LogReaders, logOf } from "./log-of.ts";
import { deploymentStreams } from "./streams/deployment-streams.ts";
import { runtimeLogList } from "./streams/runtime-log.ts";
import type { StreamDeps } from "./streams/stream-deps.ts";

export type DeploymentDeps = {
  pool: Pool;
  cursors: Cursors;
  secrets: Secrets;
  store: ObjectStore;
  runtime: LogReaders["runtime"] & Pick<Runtime, "check">;
  addonServers: LogReaders["addonServers"];
  builder: Pick<Builder, "removeCaches">;
  changes: StreamDeps["changes"];
  resolve: ResolveVariables;
  early: EarlyVariables;
  images: AccountImages;
  entitlementsOf: EntitlementsOf;
};

type DeployResult = {
  result:
    | { case: "deployment"; value: sql.DeploymentRow }
    | { case: "acknowledgement"; value: { staged: boolean; reason: string } }
    | { case: "dryRun"; value: MessageInitShape<typeof DryRunSchema> };
};

/** Deploy, archive upload, history and logs (docs/deployments.md#sources). */
export function deploymentService(deps: DeploymentDeps): ServiceImpl<typeof DeploymentService> {
  const { pool, cursors, secrets, store, builder, images, entitlementsOf } = deps;
  return {
    async deploy(request, ctx) {
      const { image } = request;
      const choose: ChooseInput = async (tx, service) => {
        refuseAddon(service.type);
        const input = image === undefined ? await ownInput(tx, service) : imageInput("image", image);
        if (!input)
          throw invalid(
            "image",
            "no_deployable_image",
            "The service has no image yet. Send one, configure source.image or source.git, or deploy an archive.",
          );
        if ("image" in input) {
          const member = image !== undefined || !service.source.image ? "image" : "source.image";
          await images.require(tx, service.accountId, member, input.image);
        }
        if (service.deleting) throw serviceDeleting();
        return input;
      };
      return deployOrDryRun(request, ctx, choose, { image });
    },

    async createUpload(request, ctx) {
      const service = await requireService(pool, request);
      refuseAddon(service.type);
      const { uploadBytes: maxBytes } = await findEntitlements(pool, entitlementsOf, request.accountId);
      if ((request.sizeBytes ?? 0) > maxBytes)
        throw invalid(
          "sizeBytes",
          "archive_too_large",
          `The plan allows archives of up to ${maxBytes / 1024 ** 2} MiB.`,
        );
      if (service.deleting) throw serviceDeleting();
      const id = newId("arc");
      const target = await store.presignPut(archiveKey(service.id, id), {
        contentType: UPLOAD_TYPE,
        maxBytes,
        expiresInSeconds: UPLOAD_SECONDS,
        owner: request.accountId,
      });
      const archiveRef = secrets.archiveRef(service.id, id);
      const { url: uploadUrl, method, contentType } = target;
      const expiresInSeconds = UPLOAD_SECONDS;
      return answered(pool, ctx, { uploadUrl, archiveRef, method, contentType, expiresInSeconds });
    },

    async deployFromArchive(request, ctx) {
      const { archiveRef } = request;
      const { id, type } = await requireService(pool, request);
      const checked = requireArchive(deps, request.accountId, { id, type }, archiveRef);
      const { key, digest: archiveDigest } = await checked.catch((error) => {
        if (!request.dryRun) throw error;
        return { key: undefined, digest: undefined };
      });
      const choose: ChooseInput = async (_, service) => {
        await checked;
        // The archive was uploaded to a former service of the same name.
        if (service.id !== id) throw notFound("service");
        if (service.deleting) throw serviceDeleting();
        return { archiveRef, archiveDigest };
      };
      const result = await deployOrDryRun(request, ctx, choose, { archiveRef, archiveDigest });
      // Builds refuse other bytes by the digest. Where the store can, it refuses to take them.
      if (key !== undefined && !request.dryRun) await store.freeze?.(key);
      return result;
    },

    async listDeployments(request) {
      const { id } = await requireService(pool, request);
      return cursors.page(
        `deployments ${id}`,
        request,
        ({ before, limit }) => sql.listDeployments(pool, id, before ? Number(before) : undefined, limit),
        (row) => String(row.version),
      );
    },

    async getDeployment(request) {
      return requireDeployment(pool, request);
    },

    async getBuildLogs(request) {
      const deployment = await requireBuild(pool, request);
      const { version } = deployment;
      const text = await readLog(pool, deployment.id);
      const commandRuns = (await findReleaseCommand(pool, deployment.id))?.started ?? false;
      const live = deployment.status === "building" || commandRuns;
      return { version, ...keepNewest(text), live, retrievedAt: timestampNow() };
    },

    async listLogs(request) {
      const { version, since, limit = 200, cursor } = request;
      const service = await requireService(pool, request);
      const { id } = service;
      const log = logOf(deps, service);
      const query = {
        serviceId: id,
        environmentId: request.environmentId,
        version,
        stream: request.stream as LogStream | undefined,
        since: since && timestampDate(since),
      };
      const list = runtimeLogList(id);
      const before = cursors.decode(list, cursor);
      const { lines, nextCursor: next } = await log
        .logs({ ...query, limit, cursor: before })
        .catch(refuseCursor);
      const data = lines.map((line) => ({ ...line, timestamp: timestampFromMs(Date.parse(line.timestamp)) }));
      const nextCursor = next === undefined ? "" : cursors.encode(list, next);
      return { data, page: { nextCursor, hasMore: next !== undefined } };
    },

    async rollback(request, ctx) {
      return deployOrDryRun(request, ctx, async (tx, service) => {
        refuseAddon(service.type);
        if (service.staged) throw serviceStaged();
        const found = await findRestorable(tx, entitlementsOf, service, request.version);
        if (isPrivate(found.config) && (await hasDomains(tx, service.id))) throw serviceHasDomains();
        await images.require(tx, service.accountId, "version", found.image);
        return { restores: found };
      });
    },

    async clearBuildCache(request, ctx) {
      const { id, type, deleting } = await requireService(pool, request);
      refuseAddon(type);
      if (deleting) throw serviceDeleting();
      // Before its record, so that a record is never without it. Repeated, it only makes a build slower.
      await builder.removeCaches(id);
      return effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        await audit(tx, who(ctx), {
          service: "deployer",
          accountId: service.accountId,
          action: "build_cache.clear",
          target: service.id,
          metadata: { service: service.name },
        });
        return {};
      });
    },

    async cancelDeployment(request, ctx) {
      const { version } = request;
      return effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        const found = await sql.findDeployment(tx, service.id, version);
        if (!found) throw notFound("version");
        if (service.deleting) throw serviceDeleting();
        if (!(await cancelDeployment(tx, found)))
          throw conflict("deployment_finished", `Version ${version} has already finished.`);
        await audit(tx, who(ctx), {
          service: "deployer",
          accountId: service.accountId,
          action: "deployment.cancel",
          target: found.id,
          metadata: { service: service.name, version: String(version) },
        });
        await enqueue(tx, [service.id]);
        return (await sql.findDeployment(tx, service.id, version))!;
      });
    },
    ...deploymentStreams(deps),
  };

  /** Accepts what `choose` returns for the locked service, stages `toStage` on the canvas, or only performs a dry run. */
  async function deployOrDryRun(
    request: ServicePath & { dryRun?: boolean },
    ctx: HandlerContext,
    choose: ChooseInput,
    toStage: StagedSource = {},
  ): Promise<DeployResult> {
    const chooseRunnable: ChooseInput = async (tx, service) => {
      const input = await choose(tx, service);
      if (!service.staged) await requireRunnable(tx, service, configOf(service, input));
      return input;
    };
    if (request.dryRun) {
      const value = await dryRun(deps, request, chooseRunnable);
      return answered<DeployResult>(pool, ctx, { result: { case: "dryRun", value } });
    }
    return effect<DeployResult>(pool, ctx, async (tx) => {
      const service = await requireLocked(tx, request);
      const input = await chooseRunnable(tx, service);
      if (service.staged) {
        await stage(tx, service.id, toStage);
        const value = { staged: true, reason: "service_not_provisioned" };
        return { result: { case: "acknowledgement", value } };
      }
      const value = await accept(tx, who(ctx), service, input, deps.early);
      await resumeIfAllowed(tx, service, configOf(service, input));
      return { result: { case: "deployment", value } };
    });
  }
}

/** Returns what a deploy without an image runs: the configured branch or image, else what the live release runs. */
async function ownInput(tx: Db, service: LockedService): Promise<DeploymentInput | undefined> {
  const { image, git } = service.source;
  if (git) return { branch: git.branch };
  return image === undefined ? sql.findLiveArtifact(tx, service.id) : imageInput("source.image", image);
}

function imageInput(member: string, image: string): DeploymentInput {
  checkImage(member, image);
  return { artifact: imageArtifact(image), image };
}

function refuseCursor(error: unknown): never {
  if (error instanceof RuntimeRefusal && error.code === "invalid_cursor") throw foreignCursor();
  throw error;
}
