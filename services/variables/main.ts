import { InternalService as DeployerInternal } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService } from "../../proto/gen/berth/variables/v1/internal_pb.ts";
import { VariablesService } from "../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Logger } from "../kit/log.ts";
import { startChangeFeed } from "../kit/postgres/change-feed.ts";
import { main } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { createAddons } from "./addons/addon-keys.ts";
import { internalService } from "./api/internal-service.ts";
import { variableService } from "./api/variable-service.ts";
import { type Config, fields } from "./config.ts";
import { deployerHandlers, identityHandlers } from "./events.ts";
import { createFollowedSets, FOLLOW_CHANNEL } from "./follow/followed-sets.ts";
import { createResolvedSets } from "./resolve/resolved-sets.ts";
import { createScopes } from "./scopes/scopes.ts";
import { createDataKeys } from "./seal/data-keys.ts";

/** Starts variables: the database (retried for a minute), the server, then publishing and consuming events. */
export function start(config: Config, log: Logger) {
  const options = { name: "variables", folder: import.meta.dirname, config, log };
  return startService(options, async ({ pool, cursors, client }) => {
    const deployer = client(DeployerInternal, config.deployerUrl);
    const keys = createDataKeys({ pool, keyring: config.encryptionKeys, log });
    const addons = createAddons({ pool, deployer, keys, log });
    const scopes = createScopes({ pool, deployer, onAddonDiscovered: addons.tryRefresh });
    const sets = createResolvedSets({ pool, keys });
    const url = config.databaseUrl;
    const changes = await startChangeFeed({ url, name: FOLLOW_CHANNEL, log, fallbackMs: 1_000 });
    const followed = createFollowedSets({ pool, deployer, keys, changes, log });
    const handlers = deployerHandlers({ scopes, addons });
    return {
      routes(router) {
        router.service(
          VariablesService,
          variableService({ pool, deployer, cursors, scopes, keys, sets, followed }),
        );
        router.service(InternalService, internalService({ pool, scopes, keys, addons, sets }));
      },
      consumers: [
        { name: "variables-deployer", from: "deployer", handlers },
        { name: "variables-identity", from: "identity", handlers: identityHandlers },
      ],
      background: () => ({
        stop: async () => {
          await followed.stop();
          await changes.stop();
        },
      }),
    };
  });
}

if (import.meta.main) await main("variables", fields, start);
