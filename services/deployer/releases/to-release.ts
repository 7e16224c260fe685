import type { Release } from "../runtime/port.ts";
import type { ResolvedVariables } from "../variables/variables-client.ts";
import type { ReleaseRow } from "./sql.ts";

/**
 * Returns the release of a deployment with these variables. `minReadySeconds` is for services whose configuration has
 * none.
 */
export function toRelease(
  row: ReleaseRow,
  variables: ResolvedVariables,
  revision: number,
  minReadySeconds: number,
): Release {
  const { config } = row;
  const { values, sensitive } = variables;
  const port = config.port ?? 8080;
  const env = { ...config.env };
  for (const name of hiddenNames(row, variables)) delete env[name];
  return {
    serviceId: row.serviceId,
    accountId: row.accountId,
    projectId: row.projectId,
    environmentId: row.environmentId,
    names: { project: row.project, environment: row.environment, service: row.service },
    ...(row.objectName && { objectName: row.objectName }),
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

/** Returns the fingerprint of what variables make of a release's environment: also of what they hide in `config.env`. */
export function fingerprintOf(row: Pick<ReleaseRow, "config">, variables: ResolvedVariables): string {
  return [variables.fingerprint, ...hiddenNames(row, variables)].join(" ");
}

// A variable that dangles is left out, and nothing stands in for it.
function hiddenNames({ config }: Pick<ReleaseRow, "config">, { dangling }: ResolvedVariables): string[] {
  const names = dangling.map(({ name }) => name);
  return names.filter((name) => Object.hasOwn(config.env ?? {}, name)).sort();
}
