import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect } from "vitest";
import {
  DeploymentAppliedSchema,
  DeploymentFailedSchema,
  DeploymentSupersededSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { startConsumer } from "../../kit/events/consumer.ts";
import { on } from "../../kit/events/handler.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import type { TestPlatform } from "./testing.ts";

export type DeployerProcess = ReturnType<typeof deployerProcess>;

/** The deployer as a process of its own, which a test can kill. */
export function deployerProcess(platform: TestPlatform) {
  let child: ChildProcess | undefined;
  let output = "";
  return {
    /** Starts it with `more` environment, optionally by the command `wrapper`, and waits until it is ready. */
    async run(more: Record<string, string> = {}, wrapper: string[] = []): Promise<void> {
      const [program, ...args] = [...wrapper, process.execPath, join(import.meta.dirname, "../main.ts")];
      const started = spawn(program!, args, {
        env: {
          PATH: process.env.PATH,
          HOME: process.env.HOME,
          ...platform.env,
          LOG_LEVEL: "debug",
          ...more,
        },
        stdio: ["ignore", "pipe", "pipe"],
      });
      child = started;
      for (const stream of [started.stdout, started.stderr]) stream.on("data", (part) => (output += part));
      await eventually("the deployer is ready", () => {
        if (hasEnded(started)) throw new Error(`the deployer ended at its start: ${output.slice(-2_000)}`);
        return fetch(`http://127.0.0.1:${more.PORT ?? platform.port}/readyz`).then(
          (answer) => answer.ok,
          () => false,
        );
      });
    },
    /** Ends it. Returns its exit code. */
    async end(signal: NodeJS.Signals): Promise<number | null> {
      const ending = child;
      child = undefined;
      if (!ending || hasEnded(ending)) return null;
      const exited = once(ending, "exit");
      ending.kill(signal);
      return (await exited)[0];
    },
    pid: () => child?.pid,
    runs: () => child !== undefined && !hasEnded(child),
    output: () => output,
  };
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

type ReceivedEvent = { kind: string; serviceId: string; deploymentId?: string; intervalId?: string };

/** Collects the deployer's events of the ends of deployments and of usage. */
export function collectEvents(platform: TestPlatform) {
  const log = createLog("test", "silent");
  const pool = createPool(platform.database.url("variables"));
  const bus = connectBus(platform.nats.url, "test", log);
  const received: ReceivedEvent[] = [];
  const schemas = [
    DeploymentAppliedSchema,
    DeploymentFailedSchema,
    DeploymentSupersededSchema,
    UsageStartedSchema,
    UsageStoppedSchema,
  ];
  const handlers = schemas.map((schema) =>
    on(schema, async (_tx, event) => {
      received.push({ kind: schema.name, ...(event as Omit<ReceivedEvent, "kind">) });
    }),
  );
  const consumer = startConsumer({ bus, pool, log, name: "test-deployer", from: "deployer", handlers });
  return {
    received,
    stop: async () => {
      await consumer.stop();
      await bus.close();
      await pool.end();
    },
  };
}

const ENDS = ["applied", "failed", "superseded"];

/**
 * Waits until every deployment of a service has ended and its event arrived, then asserts that versions have no gap
 * and that each end had one event. Returns the final statuses, oldest first.
 */
export async function everyDeploymentEnds(
  platform: TestPlatform,
  received: ReceivedEvent[],
  serviceId: string,
): Promise<string[]> {
  const rows = await eventually("every deployment ends", async () => {
    const found = await platform.pool.query<{ id: string; version: number; status: string }>(
      "select id, version, status from deployments where service_id = $1 order by version",
      [serviceId],
    );
    return found.rows.every(({ status }) => ENDS.includes(status)) && found.rows;
  });
  expect(rows.map(({ version }) => version)).toEqual(rows.map((_, index) => index + 1));
  const kindOf = {
    applied: "DeploymentApplied",
    failed: "DeploymentFailed",
    superseded: "DeploymentSuperseded",
  };
  const expected = rows.map(({ id, status }) => `${id} ${kindOf[status as keyof typeof kindOf]}`);
  const ends = () =>
    received
      .filter((one) => one.serviceId === serviceId && one.deploymentId)
      .map(({ deploymentId, kind }) => `${deploymentId} ${kind}`);
  await eventually("the event of each end arrived", async () =>
    expected.every((end) => ends().includes(end)),
  );
  expect(ends().sort()).toEqual(expected.sort());
  return rows.map(({ status }) => status);
}

/** Returns the folder of each process that runs in the data folder, relative to it. */
export function runningFolders(platform: TestPlatform): string[] {
  return findProcessesOf(platform.dataDir).map(({ path }) => path.slice(platform.dataDir.length + 1));
}

export type HeldCommits = Awaited<ReturnType<typeof holdCommits>>;

/**
 * Holds every commit of a change of `table` that matches `when` (SQL over `new` and, for updates, `old`) until the
 * test decides about it. A process killed meanwhile dies right before the change is durable.
 */
export async function holdCommits(
  platform: Pick<TestPlatform, "pool">,
  on: "insert" | "update" | "delete",
  table: string,
  when: string,
) {
  const holder = await platform.pool.connect();
  const key = 1_234_567;
  await holder.query("select pg_advisory_lock($1)", [key]);
  await holder.query(`
    create or replace function hold_commit() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(${key}); return null; end $$;
    create constraint trigger hold_commit after ${on} on ${table} deferrable initially deferred
      for each row when (${when}) execute function hold_commit()`);
  const waiting = () =>
    platform.pool
      .query<{ pid: number }>(
        "select pid from pg_locks where locktype = 'advisory' and objid = $1 and not granted and database = (select oid from pg_database where datname = current_database())",
        [key],
      )
      .then(({ rows }) => rows.map(({ pid }) => pid));
  return {
    /** Waits until so many are held. Returns the pids of their backends. */
    reached: (commits = 1) =>
      eventually(`a commit is held on ${table}`, async () => {
        const pids = await waiting();
        return pids.length >= commits && pids;
      }),
    /** Decides about the commits that are held, and holds no further ones. */
    async release(outcome: "kept" | "lost"): Promise<void> {
      const held = await waiting();
      if (outcome === "lost")
        for (const pid of held) await holder.query("select pg_terminate_backend($1)", [pid]);
      await holder.query("select pg_advisory_unlock($1)", [key]);
      await eventually("nothing is held", async () => (await waiting()).length === 0);
      await holder.query(`drop trigger hold_commit on ${table}`);
      holder.release();
    },
  };
}
