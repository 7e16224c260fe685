import type { Release, Runtime, RuntimeStatus } from "../../../services/deployer/runtime/port.ts";
import { RuntimeRefusal } from "../../../services/deployer/terms/runtime-refusal.ts";
import type { Process } from "./process.ts";
import type { World } from "./world.ts";

/** What the simulated runtime runs for a service. */
export type Run = Pick<Release, "version" | "revision" | "artifact" | "replicas" | "size"> & {
  rolls: number;
  /** The value of its variable. */
  value: string | undefined;
  /** The name of its project, of which its address is made. */
  project: string;
  state: "starting" | "running" | "degraded" | "crashed" | "stopped";
  reason?: "rollout_deadline_exceeded" | "crash_loop";
  message?: string;
  healthyAt?: number;
  serving?: { version: number; revision: number };
  drifted?: boolean;
};

const ROLLOUTS_MS = [0, 300, 4_000];
/** How long a process that has just started does not know what runs. */
const UNREAD_MS = [0, 0, 3_000];
const REFUSES_MS = 20_000;

/** The runtime of all processes of a schedule, as its port describes it, and what befalls it. */
export class SimulatedRuntime {
  readonly runs = new Map<string, Run>();
  readonly #former = new Map<string, Run>();
  readonly #world: World;
  readonly #options: { reads: boolean; isMissing: (artifact: string) => boolean };
  #refusesUntil = 0;

  /** One that `reads` takes a while to know what runs, as on a cluster. */
  constructor(world: World, options: { reads: boolean; isMissing: (artifact: string) => boolean }) {
    this.#world = world;
    this.#options = options;
  }

  port(process: Process): Runtime {
    const { choices, clock, operations, settling } = this.#world;
    const op = <T>(label: string, effect: () => T) => operations.run(process, `runtime.${label}`, effect);
    const { reads } = this.#options;
    const readAt = reads && !settling ? clock.now + choices.of(UNREAD_MS) : 0;
    const isRead = () => clock.now >= readAt;
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
      status: (serviceId) =>
        op(`status ${serviceId}`, () => (isRead() ? this.#status(serviceId) : undefined)),
      list: () => op("list", () => (isRead() ? [...this.runs.keys()].map((id) => this.#status(id)!) : [])),
      watch(listener) {
        process.watchers.add(listener);
        return () => process.watchers.delete(listener);
      },
      ...(reads && { unread: () => (isRead() ? [] : ["env"]) }),
    };
    return parts as Runtime;
  }

  /** Ends what runs for a service. */
  lose(serviceId: string): void {
    if (this.runs.delete(serviceId)) this.#notifyWatchers(serviceId);
  }

  /** Runs what was applied before, as a cluster that was restored from a backup. */
  fallBack(serviceId: string): void {
    const former = this.#former.get(serviceId);
    if (former) {
      const run = { ...former };
      this.runs.set(serviceId, run);
      this.#rollOut(serviceId, run);
    } else this.lose(serviceId);
  }

  /** Changes what runs, behind the deployer's back. */
  drift(serviceId: string): void {
    Object.assign(this.runs.get(serviceId)!, { value: "drifted", drifted: true });
    this.#notifyWatchers(serviceId);
  }

  /** Lets what runs crash, until it runs again by itself. */
  crash(serviceId: string): void {
    const run = this.runs.get(serviceId)!;
    if (run.replicas === 0) return;
    const crashed = { state: "crashed", reason: "crash_loop", message: "It ended.", serving: undefined };
    this.#rollOut(serviceId, Object.assign(run, crashed));
  }

  /** Refuses all releases for a while. */
  refuse(): void {
    this.#refusesUntil = this.#world.clock.now + REFUSES_MS;
  }

  #apply(release: Release): void {
    const { serviceId, version, revision, rolls = 0, artifact, replicas, size, env, names } = release;
    const { clock, settling } = this.#world;
    if (!settling && clock.now < this.#refusesUntil)
      throw new RuntimeRefusal("cluster_refused", "The cluster refuses the release.");
    if (this.#options.isMissing(artifact))
      throw new RuntimeRefusal("artifact_missing", "The build of this version no longer exists.");
    const before = this.runs.get(serviceId);
    if (before && (version - before.version || revision - before.revision) < 0)
      throw new RuntimeRefusal("release_superseded", `Version ${before.version} has been applied already.`);
    const same = before?.version === version && before.revision === revision && before.rolls === rolls;
    if (before && !same && !before.drifted) this.#former.set(serviceId, { ...before });
    const fresh = { state: "starting" as const, serving: before?.serving };
    const run: Run = {
      ...(same ? before : fresh),
      ...{ version, revision, rolls, artifact, replicas, size, value: env.V, project: names.project },
      drifted: false,
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
      delete run.message;
      if (fails) run.reason = "rollout_deadline_exceeded";
      else {
        delete run.reason;
        if (run.replicas > 0) run.healthyAt ??= clock.now;
        run.serving = run.replicas > 0 ? { version: run.version, revision: run.revision } : undefined;
      }
      this.#notifyWatchers(serviceId);
    });
  }

  #status(serviceId: string): RuntimeStatus | undefined {
    const run = this.runs.get(serviceId);
    if (!run) return undefined;
    const { version, revision, rolls, state, reason, message, healthyAt, serving, replicas, size } = run;
    return {
      ...{ serviceId, version, revision, state, restarts: 0, rolls, scale: { replicas, size } },
      ...(reason && { reason }),
      ...(message && { message }),
      ...(serving && { serving }),
      ...(healthyAt !== undefined && { healthySince: new Date(healthyAt).toISOString() }),
      ...(run.drifted && { drifted: true }),
    };
  }

  #notifyWatchers(serviceId: string): void {
    const status = this.#status(serviceId) ?? ({ serviceId } as RuntimeStatus);
    for (const process of this.#world.processes)
      this.#world.operations.deliver(process, `watch ${serviceId}`, () => {
        for (const listener of process.watchers) listener(status);
      });
  }
}
