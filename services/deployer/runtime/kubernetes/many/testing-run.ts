import { join } from "node:path";
import { afterEach } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { createLog } from "../../../../kit/log.ts";
import { migrate } from "../../../../kit/postgres/migrate.ts";
import { readConfig } from "../../../../kit/process/config.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { fields } from "../../../config.ts";
import { connectKube } from "../../../kube/client.ts";
import { Namespace } from "../../../kube/kinds.ts";
import { startTestPlatform, type TestPlatform } from "../../../testing/testing.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { insertRunning, manyOptions, manyReleases, storeRunning } from "./testing.ts";
import { startManyDeployer } from "./testing-deployer.ts";

const LOG = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
/** Two thousand lists and as many watches are much for a busy machine. */
export const PATIENCE_MS = 240_000;
export const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** A cluster whose environments have three services each, and a database that knows of them; no deployer yet. */
export async function running(environments: number, more: Partial<KubernetesRuntimeOptions> = {}) {
  const [api, platform] = await Promise.all([startKubeApi(), startTestPlatform()]);
  stops.push(platform.stop, api.stop);
  await migrate(platform.pool, join(import.meta.dirname, "../../../migrations"));
  const warnings: Record<string, unknown>[] = [];
  const log = { info() {}, warn: (object: object) => void warnings.push({ ...object }), error() {} };
  // A request may take long where much else runs.
  const options = manyOptions({ kube: connectKube(api.config, 200_000), log, ...more });
  const releases = manyReleases(environments, 3);
  api.store.put(Namespace, { metadata: { name: options.claimsNamespace } });
  storeRunning(api, releases, options);
  await insertRunning(platform.pool, releases);
  return { api, platform, options, releases, warnings };
}

export async function startDeployer(
  { env }: TestPlatform,
  options: KubernetesRuntimeOptions,
  port = env.PORT,
) {
  const config = readConfig({ ...env, PORT: port, PLAN_QUOTAS: "off" }, fields);
  const deployer = await startManyDeployer(config, LOG, options);
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= deployer.stop());
  stops.push(stop);
  return { stop };
}

/** What a namespace itself consists of. */
const OF_NAMESPACES = ["namespaces", "networkpolicies", "resourcequotas", "limitranges"];

/**
 * Leaves out what belongs to namespaces: each minute a tenth of them is applied again, and a busy machine may reach that
 * minute before a test has ended.
 */
export function ofApps<Call extends { plural: string }>(calls: Call[]): Call[] {
  return calls.filter(({ plural }) => !OF_NAMESPACES.includes(plural));
}

/** Waits until the database was compared with the cluster, and nothing is due or in hand. */
export async function atRest({ pool }: TestPlatform): Promise<void> {
  const none = async (sql: string) => (await pool.query(`${sql} limit 1`)).rowCount === 0;
  const compared = () => none("select from usage_intervals where seen_at < now() - interval '1 day'");
  await eventually("all was compared", compared, PATIENCE_MS);
  await eventually("nothing is due", () =>
    none("select from work where lease_owner is not null or next_at < now() + interval '10 seconds'"),
  );
}
