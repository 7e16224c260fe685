import { BuildFailure } from "../../../services/deployer/builder/build-failure.ts";
import { type Builder, BuildHandedOver } from "../../../services/deployer/builder/port.ts";
import type { IsBuiltImage } from "../../../services/deployer/images/account-images.ts";
import type { Process } from "./process.ts";
import { SimulatedRuntime } from "./runtime.ts";
import { Variables } from "./variables.ts";
import type { World } from "./world.ts";

type Job = { outcome: "built" | "fails" | "breaks"; endsAt: number; ended: boolean };

const BUILDS_MS = [0, 300, 12_000];
export const isBuiltImage: IsBuiltImage = ({ registry }) => registry === "registry.test";
const BUILT = "image:registry.test/apps@sha256:";

/** Runtime, builder and variables of all processes of a schedule, as their ports describe them. */
export class Engine {
  readonly runtime: SimulatedRuntime;
  readonly variables: Variables;
  readonly jobs = new Map<string, Job>();
  readonly artifacts = new Set<string>();
  /** Whether builds outlive their process and are resumed, as on a cluster. */
  readonly resumes: boolean;
  readonly #world: World;

  constructor(world: World, resumes: boolean) {
    this.#world = world;
    this.resumes = resumes;
    this.variables = new Variables(world);
    const isMissing = (artifact: string) => this.#isBuilt(artifact) && !this.artifacts.has(artifact);
    this.runtime = new SimulatedRuntime(world, { reads: resumes, isMissing });
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
}
