import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import type { Client, ConnectRouter } from "@connectrpc/connect";
import { connectBus } from "../events/bus.ts";
import { caughtUp } from "../events/caught-up.ts";
import { type ConsumerDefinition, startConsumer } from "../events/consumer.ts";
import { watchEvents } from "../events/metrics.ts";
import { startRelay } from "../events/outbox.ts";
import type { Logger } from "../log.ts";
import { createPool, type Pool } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { type Cursors, createCursors } from "../postgres/paging.ts";
import { serviceClient } from "../rpc/client.ts";
import { startTelemetry } from "../telemetry.ts";
import type { BackendsConfig, ServiceConfig } from "./config.ts";
import type { Running } from "./process.ts";
import { type ServerOptions, serve } from "./server.ts";

type ProcessOptions<Config> = {
  /** The name of the process, as other services know it. */
  name: string;
  /** The folder with its `migrations`. */
  folder: string;
  config: Config;
  log: Logger;
  /** The most connections of its pool. */
  maxConnections?: number;
};

/** A typed client of another service that acts as this process. */
export type ConnectClient = <S extends DescService>(service: S, url: string) => Client<S>;

/**
 * Starts what every process needs: telemetry, its database with all migrations applied, and NATS, which need not be
 * reachable yet. Fails when the database is unreachable for a minute.
 */
export async function connectBackends(options: ProcessOptions<BackendsConfig>) {
  const { name, folder, config, log, maxConnections } = options;
  const telemetry = await startTelemetry(name, config.otlpUrl);
  const pool = createPool(config.databaseUrl, { name, max: maxConnections, timeouts: config });
  await migrate(pool, join(folder, "migrations"));
  const bus = connectBus(config.natsUrl, name, log);
  const client: ConnectClient = (service, url) =>
    serviceClient(service, { url, keys: config.internalKeys, name });
  return {
    pool,
    bus,
    client,
    close: async () => {
      await bus.close();
      await pool.end();
      await telemetry.stop();
    },
  };
}

/** What the parts of a service are made of. */
type ServiceContext = {
  pool: Pool;
  cursors: Cursors;
  client: ConnectClient;
  /** Waits until a consumer has handled what was sent by now, for 2 s at most. */
  caughtUp: (consumer: string) => Promise<boolean>;
};

/** The parts that differ from service to service. */
type ServiceParts = {
  /** Registers the handlers of its RPCs. */
  routes: (router: ConnectRouter) => void;
  /** The events of other services that it consumes. */
  consumers?: ConsumerDefinition[];
  other?: ServerOptions["other"];
  upgrades?: ServerOptions["upgrades"];
  detail?: ServerOptions["detail"];
  /** Starts background work, once RPCs are served. */
  background?: () => Running | Promise<Running>;
};

/**
 * Starts a service: what every process needs, the parts from `create`, the server, background work, the relay of its
 * events and its consumers. `stop` stops the server, background work and consumers together, then the rest in reverse
 * order.
 */
export async function startService(
  options: ProcessOptions<ServiceConfig>,
  create: (context: ServiceContext) => ServiceParts | Promise<ServiceParts>,
) {
  const { config, log } = options;
  const { pool, bus, client, close } = await connectBackends(options);
  const consumers: ReturnType<typeof startConsumer>[] = [];
  const eventsFlow = watchEvents({ pool, bus, consumers });
  const parts = await create({
    pool,
    cursors: createCursors(config.internalKeys),
    client,
    caughtUp: (consumer) => caughtUp(bus, consumer),
  });
  const server = await serve({
    host: config.host,
    port: config.port,
    grpcPort: config.grpcPort,
    keys: config.internalKeys,
    log,
    routes: parts.routes,
    answers: pool,
    ready: async () => (await pool.query("select 1")).rowCount === 1,
    eventsFlow,
    other: parts.other,
    upgrades: parts.upgrades,
    detail: parts.detail,
  });
  const background = await parts.background?.();
  const relay = startRelay({ url: config.databaseUrl, bus, log });
  for (const each of parts.consumers ?? []) consumers.push(startConsumer({ bus, pool, log, ...each }));
  return {
    port: server.port,
    grpcPort: server.grpcPort,
    stop: async () => {
      await Promise.all([server, background, ...consumers].map((part) => part?.stop()));
      await relay.stop();
      await close();
    },
  };
}
