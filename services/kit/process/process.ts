import { closeSync, writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { createLog, type Logger } from "../log.ts";
import { UnfitSchema } from "../postgres/migrate.ts";
import { type ConfigError, type ConfigOf, type Field, readConfig } from "./config.ts";
import { beginShutdown } from "./graceful-close.ts";

export type Running = { stop: () => Promise<void> };

/**
 * Runs a service as a process: reads its configuration, starts it, and stops it on SIGTERM or SIGINT after finishing what
 * is under way. Exits with 78 for an unusable configuration, and with 1 when it cannot start or stop, the
 * latter within `stopMs`.
 */
export async function main<F extends Record<string, Field<unknown>>>(
  name: string,
  fields: F,
  start: (config: ConfigOf<F>, log: Logger) => Promise<Running>,
  stopMs = 10_000,
): Promise<void> {
  let config: ConfigOf<F>;
  try {
    config = readConfig(process.env, fields);
  } catch (error) {
    process.stderr.write(`${name}: ${(error as ConfigError).message}\n`);
    process.exit(78);
  }
  const log = createLog(name, String((config as { logLevel?: string }).logLevel ?? "info"));
  process.on("unhandledRejection", (error) => log.error({ err: error }, "unhandled rejection"));
  let stopping = false;
  const running = start(config, log).catch((error: Error) => {
    if (error instanceof UnfitSchema) log.fatal(error.message);
    else log.fatal({ err: error }, "could not start");
    process.exit(1);
  });
  const stop = async () => {
    if (stopping) return;
    stopping = true;
    log.info("stopping");
    beginShutdown();
    await delay(Number((config as { lingerMs?: number }).lingerMs ?? 0));
    const late = setTimeout(() => process.exit(1), stopMs);
    late.unref();
    await (await running).stop();
    process.exit(0);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  await running;
  // A third of the memory holds what only the start needed. Without --expose-gc it goes in time.
  globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
  log.info("ready");
  announceReady();
}

/**
 * Says on the pipe that its parent gave it (READY_FD) that it listens. The parent cannot learn that from the port:
 * another process may have taken it, and would get what is meant for this one.
 */
function announceReady(): void {
  const pipe = Number(process.env.READY_FD ?? "");
  if (!Number.isInteger(pipe) || pipe < 3) return;
  try {
    writeSync(pipe, "ready\n");
    closeSync(pipe);
  } catch {
    // The parent has gone.
  }
}
