import { join } from "node:path";
import { expect } from "vitest";
import {
  DeploymentAppliedSchema,
  DeploymentFailedSchema,
  DeploymentSupersededSchema,
  RunEndedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { startConsumer } from "../../kit/events/consumer.ts";
import { on } from "../../kit/events/handler.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { serviceProcess } from "../../kit/testing/service-process.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf } from "../shared/process-tree.ts";
import type { TestPlatform } from "./testing.ts";

export type DeployerProcess = ReturnType<typeof deployerProcess>;

/** The deployer as a process of its own, which a test can kill. */
export function deployerProcess({ port, env }: Pick<TestPlatform, "port" | "env">) {
  return serviceProcess({ main: join(import.meta.dirname, "../main.ts"), port, env });
}

type ReceivedEvent = { kind: string; serviceId: string; deploymentId?: string; intervalId?: string };

/** Collects the deployer's events of the ends of deployments and runs, and of usage. */
export function collectEvents(platform: Pick<TestPlatform, "database" | "nats">) {
  const log = createLog("test", "silent");
  const pool = createPool(platform.database.url("variables"));
  const bus = connectBus(platform.nats.url, "test", log);
  const received: ReceivedEvent[] = [];
  const schemas = [
    DeploymentAppliedSchema,
    DeploymentFailedSchema,
    DeploymentSupersededSchema,
    RunEndedSchema,
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
