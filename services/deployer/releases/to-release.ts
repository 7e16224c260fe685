import type { Release } from "../runtime/port.ts";
import type { ReleaseRow } from "./sql.ts";
import type { ResolvedVariables } from "./variables-client.ts";

/**
 * Returns the release of a deployment with these variables. `minReadySeconds` is for services whose configuration has
 * none.
 */
export function toRelease(
  row: ReleaseRow,
  { values, sensitive, dangling }: ResolvedVariables,
  revision: number,
  minReadySeconds: number,
): Release {
  const { config } = row;
  const port = config.port ?? 8080;
  // A variable that dangles is left out, and nothing stands in for it.
  const env = { ...config.env };
  for (const { name } of dangling) delete env[name];
  return {
    serviceId: row.serviceId,
    accountId: row.accountId,
    projectId: row.projectId,
    environmentId: row.environmentId,
    names: { project: row.project, environment: row.environment, service: row.service },
    type: row.type,
    version: row.version,
    revision,
    ...(row.rolls > 0 && { rolls: row.rolls }),
    artifact: row.artifact ?? "",
    command: config.command,
    port,
    replicas: config.replicas ?? 1,
    size: config.size,
    healthCheckPath: config.healthCheckPath,
    minReadySeconds: config.minReadySeconds ?? minReadySeconds,
    env: {
      ...env,
      ...values,
      PORT: String(port),
      PLATFORM_VARIABLES_REVISION: String(revision),
    },
    sensitive,
  };
}
