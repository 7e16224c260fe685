import {
  DeploymentBuildingSchema,
  DeploymentBuiltSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { entitlementsOf } from "../accounts/plans.ts";
import {
  type Builder,
  BuildFailure,
  BuildHandedOver,
  type BuildResult,
  defaultBuildLimits,
} from "../builder/port.ts";
import { failDeployment, newNotice } from "../deployments/fail-deployment.ts";
import {
  beginBuild,
  finishBuild,
  markLeftover,
  setBuildStage,
  setCommit,
} from "../deployments/transitions-sql.ts";
import { enqueue } from "../reconcile/sql.ts";
import { findRelease, type ReleaseRow } from "../releases/sql.ts";
import type { ResolvedVariables, ResolveVariables } from "../releases/variables-client.ts";
import { imageRef } from "../runtime/port.ts";
import type { Secrets } from "../secrets.ts";
import { sourceOf } from "./build-source.ts";
import { dropLog } from "./log-sql.ts";
import { type BuildLogWriter, writeBuildLog } from "./log-writer.ts";

export type BuildsDeps = {
  pool: Pool;
  builder: Builder;
  secrets: Secrets;
  resolve: ResolveVariables;
  log: Logger;
  /** Owner of this process's leases: only the holder's builds move a deployment. */
  owner: number;
  /** How many builds run at once in this process. */
  buildsAtOnce: number;
  /** A build of the service is over; `broken` when it ended by no fault of the source. */
  ended: (serviceId: string, broken: boolean) => void;
};

export type Builds = ReturnType<typeof createBuilds>;

type Running = { deploymentId: string; controller: AbortController; done: Promise<void> };

/** The builds of this process, at most one for each service. */
export function createBuilds(deps: BuildsDeps) {
  const { pool, builder, log, owner } = deps;
  const running = new Map<string, Running>();

  /** Moves the deployment to `building` and lets the build run; `false` when the deployment moved on. */
  async function begin(serviceId: string, deploymentId: string): Promise<boolean> {
    const [release, resolved] = await Promise.all([findRelease(pool, deploymentId), deps.resolve(serviceId)]);
    if (!release?.buildId) return false;
    const moved = await transaction(pool, async (tx) => {
      const row = await beginBuild(tx, owner, deploymentId);
      if (row && !row.resumed)
        await emit(tx, DeploymentBuildingSchema, row.accountId, { ...row, deploymentId });
      return row;
    });
    if (!moved) return false;
    log.info({ deploymentId, resumed: moved.resumed }, "build begins");
    // Where a build that another process began is not gone on with, its log and files begin anew.
    const resumes = moved.resumed && builder.resumes === true;
    if (moved.resumed && !resumes) {
      await builder.discard(release.buildId);
      await dropLog(pool, deploymentId);
    }
    const output = writeBuildLog(pool, deploymentId, resolved.secrets, log, resumes);
    const controller = new AbortController();
    const begun = { ...release, buildStartedMs: moved.buildStartedMs };
    const done = run(begun, resolved, output, controller.signal);
    running.set(serviceId, { deploymentId, controller, done });
    return true;
  }

  async function run(
    release: ReleaseRow,
    resolved: ResolvedVariables,
    output: BuildLogWriter,
    signal: AbortSignal,
  ): Promise<void> {
    const { serviceId, deploymentId } = release;
    let broken = false;
    try {
      const result = await builder.build(request(release, resolved, output), signal);
      if (!(await finish(deploymentId, result, output))) await disown(release);
    } catch (error) {
      if (error instanceof BuildFailure) output.line(error.message);
      await output.close();
      if (error instanceof BuildFailure)
        await failDeployment(
          pool,
          log,
          deploymentId,
          newNotice(error.stage, error.code, error.message),
        ).catch(() => {
          broken = true;
        });
      else if (signal.reason instanceof BuildHandedOver) await disown(release);
      else if (!signal.aborted) {
        broken = true;
        log.error({ err: error, deploymentId }, "the build broke off and is begun again");
      }
    } finally {
      running.delete(serviceId);
      deps.ended(serviceId, broken);
    }
  }

  /**
   * After a build that was taken away from this process: nobody goes on with one whose deployment has ended, and
   * others may have looked for what it left before it was there.
   */
  async function disown({ deploymentId, serviceId, buildId }: ReleaseRow): Promise<void> {
    try {
      const status = await markLeftover(pool, deploymentId);
      if (status === undefined) await builder.discard(buildId!);
      else if (status === "failed" || status === "superseded") await enqueue(pool, [serviceId]);
    } catch (error) {
      log.warn({ err: error, deploymentId }, "what a build may have left could not be looked after");
    }
  }

  /** The end of the log is there when the state is. `false` when the deployment moved on without it. */
  async function finish(
    deploymentId: string,
    { artifact, commit }: BuildResult,
    output: BuildLogWriter,
  ): Promise<boolean> {
    const built = { deploymentId, artifact, image: imageRef(artifact), commit };
    await output.settle();
    const moved = await transaction(pool, async (tx) => {
      await output.close(tx);
      const row = await finishBuild(tx, owner, built);
      if (row) await emit(tx, DeploymentBuiltSchema, row.accountId, { ...row, deploymentId });
      return row;
    });
    if (moved) log.info({ deploymentId }, "built");
    else log.info({ deploymentId }, "built too late; what was built is discarded");
    return moved !== undefined;
  }

  function request(release: ReleaseRow, resolved: ResolvedVariables, output: BuildLogWriter) {
    const { deploymentId, buildId, serviceId, type, config } = release;
    const begun = release.buildStartedMs ?? Date.now();
    let noted = Promise.resolve(); // one after the other, so that the last stage stays
    let newest = "";
    const note = (write: () => Promise<number>) => {
      noted = noted
        .then(async () => void (await write()))
        .catch((error) => log.warn({ err: error, deploymentId }, "the build's progress could not be noted"));
    };
    return {
      buildId: buildId!,
      serviceId,
      type,
      source: sourceOf(release, resolved, deps.secrets),
      limits: defaultBuildLimits,
      dockerfile: config.dockerfile,
      command: config.command,
      port: config.port ?? 8080,
      timeoutMs: Math.max(1, begun + entitlementsOf(release.tier).buildMs - Date.now()),
      onStage: (stage: string) => {
        newest = stage;
        // One that is over by its turn has been too short to be seen.
        note(async () => (stage === newest ? setBuildStage(pool, deploymentId, stage) : 0));
      },
      onCommit: (commit: string) => note(() => setCommit(pool, deploymentId, commit)),
      log: output.line,
    };
  }

  /** Ends this process's part in the build of a service; resolves when nothing of it runs here any more. */
  async function end(serviceId: string, reason?: BuildHandedOver): Promise<void> {
    const build = running.get(serviceId);
    if (!build) return;
    log.info({ deploymentId: build.deploymentId }, reason ? "build is left" : "build is stopped");
    build.controller.abort(reason);
    await build.done;
  }

  return {
    begin,
    /** Ends the build of a service, which is not wanted any more. */
    stop: (serviceId: string) => end(serviceId),
    /** Leaves the build of a service to the process that works on the service next. */
    leave: (serviceId: string) =>
      end(serviceId, new BuildHandedOver("another process goes on with the build")),
    /** The deployment that is being built for a service. */
    current: (serviceId: string) => running.get(serviceId)?.deploymentId,
    hasSlot: () => running.size < deps.buildsAtOnce,
    services: () => [...running.keys()],
    async leaveAll() {
      await Promise.all([...running.keys()].map(this.leave));
    },
  };
}
