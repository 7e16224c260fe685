import { join } from "node:path";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { serviceClient } from "../kit/client.ts";
import { startConsumer } from "../kit/consume.ts";
import { createCursors, createPool } from "../kit/db.ts";
import type { Logger } from "../kit/log.ts";
import { migrate } from "../kit/migrate.ts";
import { connectBus } from "../kit/nats.ts";
import { startRelay } from "../kit/outbox.ts";
import { main } from "../kit/process.ts";
import { serve } from "../kit/server.ts";
import { startTelemetry } from "../kit/telemetry.ts";
import { createAddons } from "./addons.ts";
import { type Config, fields } from "./config.ts";
import { createDataKeys } from "./data-keys.ts";
import { deployerHandlers } from "./events.ts";
import { createResolvedSets } from "./resolved.ts";
import { createScopes } from "./scopes.ts";
import { variableService } from "./variable-service.ts";

/** Starts variables: database first (tried for a minute), then the server, then events out and in. */
export async function start(config: Config, log: Logger) {
  const telemetry = await startTelemetry("variables", config.otlpUrl);
  const pool = createPool(config.databaseUrl, { name: "variables", timeouts: config });
  await migrate(pool, join(import.meta.dirname, "migrations"));
  const bus = connectBus(config.natsUrl, "variables", log);
  const cursors = createCursors(config.internalKeys);
  const catalog = serviceClient(CatalogService, {
    url: config.deployerUrl,
    keys: config.internalKeys,
    name: "variables",
  });
  const keys = createDataKeys({ pool, keyring: config.encryptionKeys, log });
  const addons = createAddons({ pool, catalog, keys, log });
  const scopes = createScopes({ pool, catalog, welcome: addons.tryRefresh });
  const sets = createResolvedSets({ pool, keys });
  const server = await serve({
    host: config.host,
    port: config.port,
    grpcPort: config.grpcPort,
    keys: config.internalKeys,
    log,
    services: [VariablesService],
    routes: (router) => {
      router.service(VariablesService, variableService({ pool, cursors, scopes, keys, addons, sets }));
    },
    answers: pool,
    ready: async () => (await pool.query("select 1")).rowCount === 1,
  });
  const relay = startRelay({ url: config.databaseUrl, bus, log });
  const tree = startConsumer({
    bus,
    pool,
    log,
    name: "variables-deployer",
    from: "deployer",
    handlers: deployerHandlers({ scopes, addons }),
  });
  return {
    port: server.port,
    grpcPort: server.grpcPort,
    stop: async () => {
      await server.stop();
      await tree.stop();
      await relay.stop();
      await bus.close();
      await pool.end();
      await telemetry.stop();
    },
  };
}

if (import.meta.main) await main("variables", fields, start);
