import { invalid } from "../../kit/rpc/refusals.ts";
import type { AddonReaders } from "../addons/port.ts";
import type { ServiceRow } from "../projects/services-sql.ts";
import type { LogQuery, Runtime } from "../runtime/port.ts";
import { type AddonType, isDeployable } from "../terms/services.ts";

export type LogReaders = {
  runtime: Pick<Runtime, "logs" | "followLogs">;
  addonServers: Pick<AddonReaders, "unlogged" | "logs" | "followLogs">;
};

/** Returns what reads the log of a service. Throws 422 not_supported_here for an addon that has none of its own. */
export function logOf(
  { runtime, addonServers }: LogReaders,
  { type, addonEngine }: Pick<ServiceRow, "type" | "addonEngine">,
): Pick<Runtime, "logs" | "followLogs"> {
  if (isDeployable(type)) return runtime;
  const reason = addonServers.unlogged(type as AddonType);
  if (reason !== undefined) throw invalid("service", "not_supported_here", reason);
  const addon = { type: type as AddonType, engine: addonEngine ?? undefined };
  const ofAddon = <Query extends LogQuery>(query: Query) => ({ ...query, addon });
  return {
    logs: (query) => addonServers.logs(ofAddon(query)),
    followLogs: (query, signal) => addonServers.followLogs(ofAddon(query), signal),
  };
}
