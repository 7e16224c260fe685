import { startServiceReconciler } from "../../../services/deployer/reconcile/reconciler.ts";
import { createEarlyVariables } from "../../../services/deployer/variables/early-variables.ts";
import { BUILDS_AT_ONCE, entitlementsOf } from "../entitlements.ts";
import { type Engine, isBuiltImage } from "../world/engine.ts";
import { createSimulatedPool } from "../world/pool.ts";
import { Process } from "../world/process.ts";
import type { World } from "../world/world.ts";

const digests = Buffer.alloc(0);
const noLog = { info() {}, warn() {}, error() {} };

/** Starts a process of the deployer. One that cannot start is dead. */
export function startDeployer(world: World, engine: Engine, name: string): void {
  const process = new Process(name);
  world.processes.push(process);
  world.note(`${name} starts`);
  process.pool = createSimulatedPool(world, process);
  process.early = createEarlyVariables(engine.variables.resolve(process));
  process.reconciler = startServiceReconciler({
    databaseUrl: `sim:${name}`,
    pool: process.pool,
    runtime: engine.runtime.port(process),
    builder: engine.builder(process),
    early: process.early,
    store: { sweep: async () => 0, removePrefix: async () => {} } as never,
    addons: {} as never,
    addonServers: { ownServer: [], list: async () => [], watch: () => {} } as never,
    secrets: { seal: () => digests, archiveKey: () => "archive" } as never,
    log: (world.trace ? createLog(world, name) : noLog) as never,
    isBuiltImage,
    entitlementsOf,
    minReadySeconds: 0,
    buildsAtOnce: BUILDS_AT_ONCE,
  });
  process.reconciler.catch(() => void world.kill(process));
}

/** Returns a log that writes into the trace. */
function createLog(world: World, name: string) {
  const log = (level: string) => (facts: { err?: Error }, message: string) =>
    world.note(`${name}   ${level}: ${message}${facts.err ? ` (${facts.err.message})` : ""}`);
  return { info: log("info"), warn: log("warn"), error: log("error") };
}
