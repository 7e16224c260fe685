import { BuildFailure } from "../../builder/build-failure.ts";
import { type Builder, BuildHandedOver } from "../../builder/port.ts";
import type { IsBuiltImage } from "../../images/account-images.ts";
import { VariablesUnavailable } from "../../releases/variables-client.ts";
import { type Release, type Runtime, RuntimeRefusal, type RuntimeStatus } from "../../runtime/port.ts";
import type { Process } from "./process.ts";
import type { World } from "./world.ts";

/** What the simulated runtime runs for a service. */
export type Run = Pick<Release, "version" | "revision" | "artifact" | "replicas" | "size"> & {
  rolls: number;
  /** The value of its variable. */
  value: string | undefined;
  state: "starting" | "running" | "degraded" | "stopped";
  reason?: "rollout_deadline_exceeded";
  healthyAt?: number;
  serving?: { version: number; revision: number };
};

type Job = { outcome: "built" | "fails" | "breaks"; endsAt: number; ended: boolean };

const ROLLOUTS_MS = [0, 300, 4_000];
const BUILDS_MS = [0, 300, 12_000];
export const isBuiltImage: IsBuiltImage = ({ registry }) => registry === "registry.test";
const BUILT = "image:registry.test/apps@sha256:";

/** Runtime, builder and variables of all processes of a schedule, as their ports describe them. */
export class Engine {
  readonly runs = new Map<string, Run>();
  readonly jobs = new Map<string, Job>();
  readonly artifacts = new Set<string>();
  readonly variables = new Map<string, number>();
  /** Whether builds outlive their process and are resumed, as on a cluster. */
  readonly resumes: boolean;
  readonly #world: World;

  constructor(world: World, resumes: boolean) {
    this.#world = world;
    this.resumes = resumes;
  }

  runtime(process: Process): Runtime {
    const op = <T>(label: string, effect: () => T) =>
      this.#world.operations.run(process, `runtime.${label}`, effect);
    const parts: Partial<Runtime> = {
      apply: (release) =>
        op(`apply ${release.serviceId} v${release.version} r${release.revision}`, () => this.#apply(release)),
      remove: (serviceId) => op(`remove ${serviceId}`, () => this.lose(serviceId)),
      scale: (serviceId, version, { replicas, size }) =>
        op(`scale ${serviceId} v${version} to ${replicas}`, () => {
          const run = this.runs.get(serviceId);
          if (run?.version !== version) return;
          Object.assign(run, { replicas, size });
          this.#rollOut(serviceId, run);
        }),
      roll: (serviceId, version, rolls) =>
        op(`roll ${serviceId} v${version} to ${rolls}`, () => {
          const run = this.runs.get(serviceId);
          if (run?.version !== version || run.rolls >= rolls) return;
          Object.assign(run, { rolls, state: "starting" });
          this.#rollOut(serviceId, run);
        }),
      status: (serviceId) => op(`status ${serviceId}`, () => this.#status(serviceId)),
      list: () => op("list", () => [...this.runs.keys()].map((id) => this.#status(id)!)),
      watch(listener) {
        process.watchers.add(listener);
        return () => process.watchers.delete(listener);
      },
    };
    return parts as Runtime;
  }

  #apply(release: Release): void {
    const { serviceId, version, revision, rolls = 0, artifact, replicas, size, env } = release;
    if (this.#isBuilt(artifact) && !this.artifacts.has(artifact))
      throw new RuntimeRefusal("artifact_missing", "The build of this version no longer exists.");
    const before = this.runs.get(serviceId);
    if (before && (version - before.version || revision - before.revision) < 0)
      throw new RuntimeRefusal("release_superseded", `Version ${before.version} has been applied already.`);
    const same = before?.version === version && before.revision === revision && before.rolls === rolls;
    const fresh = { state: "starting" as const, serving: before?.serving };
    const run: Run = {
      ...(same ? before : fresh),
      ...{ version, revision, rolls, artifact, replicas, size, value: env.V },
    };
    this.runs.set(serviceId, run);
    this.#rollOut(serviceId, run);
  }

  /** Lets a run become available after a while, or fail to. */
  #rollOut(serviceId: string, run: Run): void {
    const { choices, clock } = this.#world;
    this.#notifyWatchers(serviceId);
    const fails = run.healthyAt === undefined && !this.#world.settling && choices.chance(0.1);
    clock.after(choices.of(ROLLOUTS_MS), () => {
      if (this.runs.get(serviceId) !== run) return;
      run.state = fails ? "degraded" : run.replicas === 0 ? "stopped" : "running";
      if (fails) run.reason = "rollout_deadline_exceeded";
      else {
        delete run.reason;
        if (run.replicas > 0) run.healthyAt ??= clock.now;
        run.serving = run.replicas > 0 ? { version: run.version, revision: run.revision } : undefined;
      }
      this.#notifyWatchers(serviceId);
    });
  }

  /** Ends what runs for a service. */
  lose(serviceId: string): void {
    if (this.runs.delete(serviceId)) this.#notifyWatchers(serviceId);
  }

  #status(serviceId: string): RuntimeStatus | undefined {
    const run = this.runs.get(serviceId);
    if (!run) return undefined;
    const { version, revision, rolls, state, reason, healthyAt, serving, replicas, size } = run;
    return {
      ...{ serviceId, version, revision, state, restarts: 0, rolls, scale: { replicas, size } },
      ...(reason && { reason }),
      ...(serving && { serving }),
      ...(healthyAt !== undefined && { healthySince: new Date(healthyAt).toISOString() }),
    };
  }

  #notifyWatchers(serviceId: string): void {
    const status = this.#status(serviceId) ?? ({ serviceId } as RuntimeStatus);
    for (const process of this.#world.processes)
      this.#world.operations.deliver(process, `watch ${serviceId}`, () => {
        for (const listener of process.watchers) listener(status);
      });
  }

  builder(process: Process): Builder {
    const op = <T>(label: string, effect: () => T) =>
      this.#world.operations.run(process, `builder.${label}`, effect);
    return {
      ...(this.resumes && { resumes: true as const }),
      build: async ({ buildId, onStage }, signal) => {
        signal.throwIfAborted();
        process.builds++;
        try {
          const job = await op(`begin ${buildId}`, () => this.#begin(buildId));
          onStage("Building image");
          await this.#follow(job, signal);
          const artifact = await op(`end ${buildId}`, () => this.#end(buildId, job));
          return { artifact, runtime: "node" as const };
        } catch (error) {
          const handedOver = signal.aborted && signal.reason instanceof BuildHandedOver && this.resumes;
          // A finished image outlives its Job.
          const clean = () => (this.resumes ? void this.jobs.delete(buildId) : this.#discard(buildId));
          if (!handedOver) await op(`clean ${buildId}`, clean);
          throw error;
        } finally {
          process.builds--;
        }
      },
      discard: ({ buildId }) => op(`discard ${buildId}`, () => this.#discard(buildId)),
      removeArtifact: (artifact) =>
        op(`removeArtifact ${artifact}`, () => {
          if (this.#isBuilt(artifact)) this.artifacts.delete(artifact);
        }),
      removeCaches: (serviceId) => op(`removeCaches ${serviceId}`, () => {}),
    };
  }

  #begin(buildId: string): Job {
    const { choices, clock, settling } = this.#world;
    const artifact = this.#artifactOf(buildId);
    const found = this.jobs.get(buildId);
    if (found && this.resumes) return found;
    const hangs = !settling && choices.chance(0.01);
    const ms = hangs ? 3_600_000 : choices.of(BUILDS_MS);
    const job: Job = { outcome: "built", endsAt: clock.now + ms, ended: false };
    if (!settling && choices.chance(0.15)) job.outcome = choices.of(["fails", "breaks"] as const);
    // Its Job is gone, and the image shows that it was built.
    if (this.resumes && this.artifacts.has(artifact)) job.endsAt = clock.now;
    this.jobs.set(buildId, job);
    if (this.resumes)
      clock.after(job.endsAt - clock.now, () => {
        job.ended = true;
        if (this.jobs.get(buildId) === job && job.outcome === "built") this.artifacts.add(artifact);
      });
    return job;
  }

  #follow(job: Job, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#world.clock.after(job.endsAt - this.#world.clock.now, resolve);
      signal.addEventListener("abort", () => {
        cancel();
        reject(signal.reason);
      });
    });
  }

  #end(buildId: string, { outcome }: Job): string {
    if (!this.jobs.has(buildId)) throw new Error("the build was removed by another process");
    this.jobs.delete(buildId);
    if (outcome === "fails") throw new BuildFailure("build", "compile_failed", "The build failed.");
    if (outcome === "breaks") throw new Error("the builder is unavailable");
    const artifact = this.#artifactOf(buildId);
    this.artifacts.add(artifact);
    return artifact;
  }

  #discard(buildId: string): void {
    this.jobs.delete(buildId);
    this.artifacts.delete(this.#artifactOf(buildId));
  }

  #artifactOf(buildId: string): string {
    if (!this.resumes) return `directory:${buildId}`;
    return BUILT + Buffer.from(buildId).toString("hex").padStart(64, "0");
  }

  #isBuilt(artifact: string): boolean {
    return artifact.startsWith(BUILT) || artifact.startsWith("directory:");
  }

  resolve(process: Process) {
    return (serviceId: string) =>
      this.#world.operations.run(
        process,
        `resolve ${serviceId}`,
        () => {
          const value = String(this.variables.get(serviceId) ?? 0);
          const none = { secrets: [], sensitive: [], dangling: [], warnings: [], unpublished: [] };
          return { values: { V: value }, fingerprint: value, ...none };
        },
        () => new VariablesUnavailable(),
      );
  }
}
