import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { connectBus } from "../../kit/events/bus.ts";
import { startConsumer } from "../../kit/events/consumer.ts";
import { on } from "../../kit/events/handler.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, archiveOf, startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { deployerProcess } from "../testing/testing-process.ts";
import type { IntervalRow } from "./sql.ts";

type UsageEvent = IntervalRow & { kind: string; at: number };

/** An app that answers with its process id. */
export const app = {
  "package.json": JSON.stringify({ name: "pids", scripts: { start: "node server.js" } }),
  "server.js":
    "require('node:http').createServer((q, r) => r.end(String(process.pid))).listen(process.env.PORT)",
};

export type UsagePlatform = Awaited<ReturnType<typeof startUsagePlatform>>;

/** Starts a platform whose deployer a test starts and ends, and collects its usage events as billing gets them. */
export async function startUsagePlatform() {
  const platform = await startTestPlatform();
  const deployer = deployerProcess(platform);
  const { events, stopCollecting } = collectUsage(platform);
  const changesOf = (serviceId: string) =>
    events.filter((one) => one.serviceId === serviceId && one.kind !== "Heartbeat");
  return {
    platform,
    deployer,
    events,
    /** Waits until the service has exactly events of these kinds, heartbeats aside; returns them. */
    untilEvents: (serviceId: string, ...kinds: string[]) =>
      eventually(`usage events: ${kinds.join(", ")}`, async () => {
        const found = changesOf(serviceId);
        return found.length >= kinds.length && found.map((one) => one.kind).join() === kinds.join() && found;
      }),
    /** Waits until so many replicas of a service are paid for; returns all its events, heartbeats aside. */
    untilReplicas: (serviceId: string, replicas: number) =>
      eventually(`${replicas} replicas are paid for`, async () => {
        const found = changesOf(serviceId);
        return found.at(-1)?.replicas === replicas && found;
      }),
    /** An account with a web service that runs the app. */
    async webService(config: object = {}) {
      const acting = actAs(platform.port, newId("acc"));
      const environment = await acting.environment();
      const made = { ...environment, name: "web", type: "web", config: { minReadySeconds: 0, ...config } };
      const { id } = await acting.catalog.createService(made);
      const path = environment.at("web");
      await acting.deployArchive(path, await archiveOf(app));
      const { url } = await acting.untilService(path, "running");
      return { ...acting, environment, id, path, url: url! };
    },
    async stop() {
      await deployer.end("SIGKILL");
      await stopCollecting();
      await platform.stop();
    },
  };
}

function collectUsage(platform: TestPlatform) {
  const events: UsageEvent[] = [];
  const log = createLog("test", "silent");
  const pool = createPool(platform.database.url("variables"));
  const bus = connectBus(platform.nats.url, "test", log);
  const schemas = [UsageStartedSchema, UsageResizedSchema, UsageStoppedSchema, UsageHeartbeatSchema];
  const handlers = schemas.map((schema) =>
    on(schema, async (_tx, event) => {
      const { $typeName: _name, at, ...rest } = event as typeof event & { at: Timestamp };
      events.push({ kind: schema.name.slice("Usage".length), ...rest, at: timestampMs(at) });
    }),
  );
  const consumer = startConsumer({ bus, pool, log, name: "test-deployer", from: "deployer", handlers });
  return {
    events,
    async stopCollecting() {
      await consumer.stop();
      await bus.close();
      await pool.end();
    },
  };
}
