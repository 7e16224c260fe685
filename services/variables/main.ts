import { join } from "node:path";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import { connectBus } from "../kit/events/bus.ts";
import { startConsumer } from "../kit/events/consumer.ts";
import { startRelay } from "../kit/events/outbox.ts";
import type { Logger } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { migrate } from "../kit/postgres/migrate.ts";
import { createCursors } from "../kit/postgres/paging.ts";
import { main } from "../kit/process/process.ts";
import { serve } from "../kit/process/server.ts";
import { serviceClient } from "../kit/rpc/client.ts";
import { startTelemetry } from "../kit/telemetry.ts";
import { createAddons } from "./addons/addon-keys.ts";
import { variableService } from "./api/variable-service.ts";
import { type Config, fields } from "./config.ts";
import { deployerHandlers } from "./events.ts";
import { createResolvedSets } from "./resolve/resolved-sets.ts";
import { createScopes } from "./scopes/scopes.ts";
import { createDataKeys } from "./seal/data-keys.ts";

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
