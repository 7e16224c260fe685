import type { ReleaseVariables } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Release } from "../../runtime/port.ts";
import { withLauncher } from "../../shared/exec-command.ts";
import { isPrivate } from "../../terms/stored-config.ts";
import { type ReleaseRow, scaleOf } from "../sql.ts";

/**
 * Returns the release of a deployment with these variables. `minReadySeconds` is for services whose configuration has
 * none.
 */
export function toRelease(
  row: ReleaseRow,
  variables: ReleaseVariables,
  revision: number,
  minReadySeconds: number,
): Release {
  const { config } = row;
  const { data } = variables;
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
    // Without replicas; its runs are started one by one.
    type: row.type === "cron" ? "worker" : row.type,
    version: row.version,
    revision,
    ...(row.rolls > 0 && { rolls: row.rolls }),
    ...(row.tier && { tier: row.tier }),
    artifact: row.artifact ?? "",
    command: config.command === undefined ? undefined : commandIn(row, config.command),
    port,
    ...scaleOf(row),
    ...(isPrivate(config) && { public: false as const }),
    ...(config.metricsPath !== undefined && { metricsPath: config.metricsPath }),
    healthCheckPath: config.healthCheckPath,
    minReadySeconds: config.minReadySeconds ?? minReadySeconds,
    env: {
      ...env,
      ...Object.fromEntries(data.map(({ name, value }) => [name, value])),
      PORT: String(port),
      PLATFORM_VARIABLES_REVISION: String(revision),
    },
    sensitive: data.filter(({ sensitive }) => sensitive).map(({ name }) => name),
  };
}

/** Returns a command as it has to run in the image of a release: where buildpacks made that, their launcher sets it up. */
export function commandIn({ byBuildpacks }: Pick<ReleaseRow, "byBuildpacks">, command: string): string {
  return byBuildpacks ? withLauncher(command) : command;
}

/** Returns the fingerprint of what variables make of a release's environment: also of what they hide in `config.env`. */
export function fingerprintOf(row: Pick<ReleaseRow, "config">, variables: ReleaseVariables): string {
  return [variables.fingerprint, ...hiddenNames(row, variables)].join(" ");
}

// A variable that dangles is left out, and nothing stands in for it.
function hiddenNames({ config }: Pick<ReleaseRow, "config">, { dangling }: ReleaseVariables): string[] {
  const names = dangling.map(({ name }) => name);
  return names.filter((name) => Object.hasOwn(config.env ?? {}, name)).sort();
}
