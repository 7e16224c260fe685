import type { Logger } from "../../../kit/log.ts";
import { type ConfigOf, choice, integer, optionalText, port, text } from "../../../kit/process/config.ts";
import { main } from "../../../kit/process/process.ts";
import { openDoor } from "./door.ts";
import { pullKeys } from "./logins.ts";
import { pullKeysOf, readPushLogin } from "./push-login.ts";

/** Longer than the door takes to end what is under way. */
const STOP_MS = 65_000;

const fields = {
  host: text("HOST", "127.0.0.1"),
  port: port("PORT", 0),
  registryPort: integer("REGISTRY_PORT", { min: 1, max: 65_535 }),
  keys: pullKeys,
  /** Where there are no keys: a docker configuration with the login that pushes, and the host that it is for. */
  registryAuth: text("REGISTRY_AUTH", ""),
  registryPush: text("REGISTRY_PUSH", ""),
  nodesPassword: optionalText("NODES_PASSWORD"),
  logLevel: choice("LOG_LEVEL", ["debug", "info", "warn", "error", "silent"] as const, "info"),
};

async function start(config: ConfigOf<typeof fields>, log: Logger) {
  const { keys, registryAuth, registryPush } = config;
  return openDoor({
    ...config,
    keys: keys ?? pullKeysOf(await readPushLogin(registryAuth, registryPush)),
    log,
  });
}

await main("pulls", fields, start, STOP_MS);
