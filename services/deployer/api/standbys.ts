import { invalid } from "../../kit/rpc/refusals.ts";
import type { AddonServers } from "../addons/port.ts";
import type { AddonEngine } from "../terms/services.ts";

/** Why an addon has a single server. */
export const NO_STANDBYS =
  "Only PostgreSQL on CloudNativePG has standbys. Addons keep what they were made with: restore a backup of this one into a new one, once the installation makes new ones there.";

export const NO_REDIS_STANDBYS = "A redis addon has one server.";

/** Throws 422 for a PostgreSQL addon that is to have standbys and cannot; `made`: the engine of one that was made. */
export async function requireStandbys(
  servers: Pick<AddonServers, "postgresEngine">,
  replicas = 1,
  made?: AddonEngine | "usual",
): Promise<void> {
  if (replicas <= 1) return;
  const engine = made ?? (await servers.postgresEngine()) ?? "usual";
  if (engine === "usual") throw invalid("config.replicas", "not_supported_here", NO_STANDBYS);
}
