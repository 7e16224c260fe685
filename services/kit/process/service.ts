import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import type { Client, ConnectRouter } from "@connectrpc/connect";
import { connectBus } from "../events/bus.ts";
import { type Handler, startConsumer } from "../events/consumer.ts";
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
  /** The name of the process, under which others know it. */
  name: string;
  /** The folder with its `migrations`. */
  folder: string;
  config: Config;
  log: Logger;
  /** How many connections its pool has at most. */
  maxConnections?: number;
};

/** A typed client of another service that acts as this process. */
export type ConnectClient = <S extends DescService>(service: S, url: string) => Client<S>;

/**
 * Starts what every process stands on: telemetry, its database with all migrations applied, and NATS, which may
 * still be away. Fails when the database stays away for a minute.
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

/** What a service is made with. */
export type ServiceContext = { pool: Pool; cursors: Cursors; client: ConnectClient };

/** What a service is of its own. */
export type ServiceParts = {
  /** Registers the handlers of its RPCs. */
  routes: (router: ConnectRouter) => void;
  /** What it does with events, as `ConsumerOptions` says. */
  consumers?: { name: string; from: string; handlers: Handler[] }[];
  other?: ServerOptions["other"];
  /** Starts its work in the background, once RPCs are served. */
  background?: () => Running | Promise<Running>;
};

/**
 * Starts a service: what it stands on, its parts by `create`, then its server, its work in the background, and
 * events out and in. `stop` ends RPCs, background and consumers at once, then the rest in reverse order.
 */
export async function startService(
  options: ProcessOptions<ServiceConfig>,
  create: (context: ServiceContext) => ServiceParts | Promise<ServiceParts>,
) {
  const { config, log } = options;
  const { pool, bus, client, close } = await connectBackends(options);
  const parts = await create({ pool, cursors: createCursors(config.internalKeys), client });
  const server = await serve({
    host: config.host,
    port: config.port,
    grpcPort: config.grpcPort,
    keys: config.internalKeys,
    log,
    routes: parts.routes,
    answers: pool,
    ready: async () => (await pool.query("select 1")).rowCount === 1,
    other: parts.other,
  });
  const background = await parts.background?.();
  const relay = startRelay({ url: config.databaseUrl, bus, log });
  const consumers = (parts.consumers ?? []).map((each) => startConsumer({ bus, pool, log, ...each }));
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
