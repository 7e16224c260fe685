import { type HeldCommits, holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { archiveOf, createWebService, startTestPlatform, visit } from "../testing/testing.ts";
import {
  collectEvents,
  deployerProcess,
  everyDeploymentEnds,
  runningFolders,
} from "../testing/testing-process.ts";

export type KillableDeployer = Awaited<ReturnType<typeof startKillableDeployer>>;

/** What becomes of a commit that is held while the process that made it is killed. */
export const OUTCOMES = ["lost", "kept"] as const;

/** Starts a platform whose deployer can be killed while a commit is held. */
export async function startKillableDeployer() {
  const platform = await startTestPlatform();
  const deployer = deployerProcess(platform);
  const events = collectEvents(platform);

  /** A test uses the process that the one before it left running. */
  const ready = async () => void (deployer.runs() || (await deployer.run()));

  return {
    platform,
    ready,

    async webService() {
      await ready();
      return createWebService(platform.port, { config: { minReadySeconds: 0 } });
    },

    /** Returns an app that answers with its edition and process id. Its build lasts until `file` exists. */
    app: (edition: string, file = platform.dataDir) =>
      archiveOf({
        "package.json": JSON.stringify({
          name: "app",
          scripts: { build: `while [ ! -e ${file} ]; do sleep 0.02; done`, start: "node server.js" },
        }),
        "server.js": `require('node:http').createServer((q, r) => r.end('${edition} ' + process.pid)).listen(process.env.PORT)`,
      }),

    /** Waits until a service runs an edition. Returns what it answers. */
    untilRunning: ({ service, path }: Awaited<ReturnType<typeof createWebService>>, edition: string) =>
      eventually(`${edition} runs`, async () => {
        const { status, url } = await service(path);
        if (status !== "running") return false;
        const answer = await visit(url!);
        return answer.text.startsWith(`${edition} `) && answer.text;
      }),

    /** Returns the folders of the processes that run for a service or a build. */
    processesOf: (id: string) => runningFolders(platform).filter((folder) => folder.includes(id)),

    /** As `everyDeploymentEnds`. */
    everyDeploymentEnds: (serviceId: string) => everyDeploymentEnds(platform, events.received, serviceId),

    /** Waits until the given event of a service's usage arrived. Returns all of its usage events. */
    async untilUsage(kind: "UsageStarted" | "UsageStopped", serviceId: string) {
      const usage = () => events.received.filter((one) => one.serviceId === serviceId && one.intervalId);
      await eventually(`${kind} arrived`, async () => usage().some((one) => one.kind === kind));
      return usage();
    },

    /** As `holdCommits`. */
    hold: (on: "insert" | "update" | "delete", table: string, when: string) =>
      holdCommits(platform, on, table, when),

    /** Waits for the held commit, kills the deployer, decides about the commit, and starts the deployer again. */
    async killAtCommit(held: HeldCommits, outcome: "kept" | "lost", beforeStart = () => {}) {
      await held.reached();
      await deployer.end("SIGKILL");
      await held.release(outcome);
      beforeStart();
      await deployer.run();
    },

    async stop() {
      // Apps end with a deployer that is stopped, not with one that is killed.
      await ready();
      await deployer.end("SIGTERM");
      await events.stop();
      await platform.stop();
    },
  };
}

/** Waits for a call that may fail as its process is killed. Returns whether it succeeded. */
export function succeeds(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    () => false,
  );
}
