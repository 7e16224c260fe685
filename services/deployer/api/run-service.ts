import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { RunService } from "../../../proto/gen/berth/deployer/v1/runs_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { newId } from "../../kit/ids.ts";
import type { EntitlementsOf } from "../../kit/plans.ts";
import type { Pool, Tx } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/refusals.ts";
import { requireRunQuota } from "../accounts/quotas.ts";
import { readLog } from "../builds/log-sql.ts";
import { DEFAULT_RUN_SECONDS, MOST_OF_SERVICE } from "../jobs/limits.ts";
import * as sql from "../jobs/sql.ts";
import { requireLocked, requireService, serviceDeleting, serviceStaged } from "../projects/require.ts";
import type { LockedService } from "../projects/services-sql.ts";
import { RUN_OUTPUT_LINES } from "../runtime/port.ts";
import { BUILD_LOG_BYTES } from "../shared/clip-log.ts";
import { requireUnsuspended } from "../suspension/suspension.ts";
import { isDeployable } from "../terms/services.ts";
import { recordRunUsage } from "../usage/intervals.ts";
import { hasEnded, streamRunLog } from "./streams/run-log.ts";
import type { StreamDeps } from "./streams/stream-deps.ts";

export type RunDeps = {
  pool: Pool;
  cursors: Cursors;
  changes: StreamDeps["changes"];
  entitlementsOf: EntitlementsOf;
  /** Has due runs moved on now. */
  wake: () => void;
};

/** Commands that run once beside a service (docs/jobs.md#runs). */
export function runService(deps: RunDeps): ServiceImpl<typeof RunService> {
  const { pool, cursors, entitlementsOf, wake } = deps;
  return {
    async createRun(request, ctx) {
      const { command } = request;
      if (command?.includes("\0"))
        throw invalid("command", "value_invalid", "A command cannot contain a NUL character.");
      const created = await effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        if (!isDeployable(service.type))
          throw invalid("service", "not_deployable", `A ${service.type} addon runs no commands.`);
        if (command === undefined && service.type !== "cron")
          throw invalid("command", "required", "Send the command to run.");
        const version = await requireLive(tx, service);
        await requireUnsuspended(tx, service.accountId);
        await requireRoom(tx, service);
        const { accountId, id: serviceId } = service;
        const requestedBy = who(ctx).caller.id;
        const { runTimeoutSeconds = DEFAULT_RUN_SECONDS } = service.config;
        const { timeoutSeconds = runTimeoutSeconds } = request;
        const run = { id: newId("run"), accountId, serviceId, command, timeoutSeconds, version, requestedBy };
        const row = (await sql.insertRun(tx, run))!;
        await sql.pruneRuns(tx, serviceId);
        await auditRun(tx, ctx, "run.create", service, row);
        return row;
      });
      wake();
      return created;
    },

    async listRuns(request) {
      const { id } = await requireService(pool, request);
      const { status } = request;
      return cursors.page(`runs ${id} ${status ?? ""}`, request, ({ before, limit }) =>
        sql.listRuns(pool, id, status, before, limit),
      );
    },

    async getRun(request) {
      const { id } = await requireService(pool, request);
      return (await sql.findRun(pool, id, request.runId)) ?? throwNotFound();
    },

    async getRunLogs(request) {
      const { id } = await requireService(pool, request);
      // The run before its log: of one that has ended, all of it is there.
      const run = (await sql.findRun(pool, id, request.runId)) ?? throwNotFound();
      const [logs, kept] = await Promise.all([readLog(pool, run.id, "run"), sql.countLines(pool, run.id)]);
      const truncated = kept.lines >= RUN_OUTPUT_LINES || kept.bytes >= BUILD_LOG_BYTES;
      return { logs, truncated, live: !hasEnded(run), retrievedAt: timestampNow() };
    },

    followRunLogs: (request, { signal }) => streamRunLog(deps, request, signal),

    async cancelRun(request, ctx) {
      const canceled = await effect(pool, ctx, async (tx) => {
        const service = await requireLocked(tx, request);
        const run = await sql.cancelRun(tx, service.id, request.runId);
        if (!run) {
          if (!(await sql.findRun(tx, service.id, request.runId))) throwNotFound();
          throw conflict("run_finished", "The run has already ended.");
        }
        if (service.type === "cron") await recordRunUsage(tx, service.id);
        await auditRun(tx, ctx, "run.cancel", service, run);
        return run;
      });
      wake();
      return canceled;
    },
  };

  /** Requires that one more run of a service may begin. Throws 403 quota_exceeded or 409 too_many_runs. */
  async function requireRoom(tx: Tx, { accountId, id }: LockedService): Promise<void> {
    await requireRunQuota(tx, entitlementsOf, accountId, sql.countActive);
    if ((await sql.countActiveOf(tx, accountId, id)) >= MOST_OF_SERVICE)
      throw conflict(
        "too_many_runs",
        `${MOST_OF_SERVICE} runs of this service have not ended. Wait for one, or cancel one.`,
      );
  }
}

/** Returns the version of a service's live release. Throws 409. */
async function requireLive(tx: Tx, service: LockedService): Promise<number> {
  if (service.deleting) throw serviceDeleting();
  if (service.staged) throw serviceStaged();
  const version = await sql.findLiveVersion(tx, service.id);
  if (version === undefined)
    throw conflict("service_not_live", "The service has no live release. Deploy it first.");
  return version;
}

function throwNotFound(): never {
  throw notFound("run");
}

/** Records who did what to which run. The command is left out: it may hold a secret. */
function auditRun(tx: Tx, ctx: HandlerContext, action: string, service: LockedService, run: sql.RunRow) {
  const { accountId, name } = service;
  const metadata = { service: name, serviceId: service.id };
  return audit(tx, who(ctx), { service: "deployer", accountId, action, target: run.id, metadata });
}
