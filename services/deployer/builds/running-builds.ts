import { BuildHandedOver } from "../builder/port.ts";
import { type BegunBuild, type BuildDeps, beginBuild, runBuild } from "./run-build.ts";

export type BuildsDeps = BuildDeps & {
  /** Called when a build of the service has ended; `broken` when it has to begin again. */
  ended: (serviceId: string, broken: boolean) => void;
};

export type Builds = ReturnType<typeof createBuilds>;

type Running = { deploymentId: string; controller: AbortController; done: Promise<void> };

/** Returns what runs the builds of this process, at most one for each service. */
export function createBuilds(deps: BuildsDeps) {
  const running = new Map<string, Running>();

  async function run(serviceId: string, build: BegunBuild, signal: AbortSignal): Promise<void> {
    let broken = true;
    try {
      broken = await runBuild(deps, build, signal);
    } finally {
      running.delete(serviceId);
      deps.ended(serviceId, broken);
    }
  }

  /** Aborts the build of a service; resolves once nothing of it runs in this process. */
  async function abort(serviceId: string, reason?: BuildHandedOver): Promise<void> {
    const build = running.get(serviceId);
    if (!build) return;
    const { deploymentId, controller, done } = build;
    deps.log.info({ deploymentId }, reason ? "handing the build over" : "stopping the build");
    controller.abort(reason);
    await done;
  }

  return {
    /** Begins or resumes the build of a deployment that is `building`; returns `false` when it moved on. */
    async begin(serviceId: string, deploymentId: string): Promise<boolean> {
      const build = await beginBuild(deps, serviceId, deploymentId);
      if (!build) return false;
      const controller = new AbortController();
      const done = run(serviceId, build, controller.signal);
      running.set(serviceId, { deploymentId, controller, done });
      return true;
    },
    /** Ends the build of a service for good. */
    stop: (serviceId: string) => abort(serviceId),
    /** Leaves the build of a service to the process that works on the service next. */
    handOver: (serviceId: string) =>
      abort(serviceId, new BuildHandedOver("another process continues the build")),
    /** Returns the deployment that is being built for a service. */
    current: (serviceId: string) => running.get(serviceId)?.deploymentId,
    services: () => [...running.keys()],
    async handOverAll() {
      await Promise.all([...running.keys()].map(this.handOver));
    },
  };
}
