import { choice, integer, keys, port, text } from "../../../kit/process/config.ts";
import { main } from "../../../kit/process/process.ts";
import { openDoor } from "./door.ts";
import { pullKeys } from "./logins.ts";

/** Longer than the door takes to end what is under way. */
const STOP_MS = 65_000;

const fields = {
  host: text("HOST", "127.0.0.1"),
  port: port("PORT", 0),
  registryPort: integer("REGISTRY_PORT", { min: 1, max: 65_535 }),
  keys: keys(pullKeys.name),
  nodesPassword: text("NODES_PASSWORD"),
  logLevel: choice("LOG_LEVEL", ["debug", "info", "warn", "error", "silent"] as const, "info"),
};

await main("pulls", fields, (config, log) => openDoor({ ...config, log }), STOP_MS);
