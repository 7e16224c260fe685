import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { Refusal } from "../../../../../test/support/kube-api/store.ts";
import { createLog } from "../../../../kit/log.ts";
import { migrate } from "../../../../kit/postgres/migrate.ts";
import { readConfig } from "../../../../kit/process/config.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { createKubernetesAddons } from "../../../addons/kubernetes/adapter.ts";
import { fields } from "../../../config.ts";
import { type Engine, startLocalEngine } from "../../../engine/local.ts";
import { connectKube } from "../../../kube/client.ts";
import { start } from "../../../main.ts";
import { startTestPlatform, type TestPlatform } from "../../../testing/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { createKubernetesRuntime } from "../runtime.ts";
import { insertRunning, manyOptions, manyReleases, storeRunning } from "./testing.ts";

const LOG = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
/** Two thousand lists and as many watches are much for a busy machine. */
const PATIENCE_MS = 240_000;
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** A cluster whose environments have three services each, and a database that knows of them; no deployer yet. */
async function running(environments: number) {
  const [api, platform] = await Promise.all([startKubeApi(), startTestPlatform()]);
  stops.push(platform.stop, api.stop);
  await migrate(platform.pool, join(import.meta.dirname, "../../../migrations"));
  const warnings: Record<string, unknown>[] = [];
  const log = { info() {}, warn: (object: object) => void warnings.push({ ...object }), error() {} };
  // A request may take long where much else runs.
  const options = manyOptions({ kube: connectKube(api.config, 200_000), log });
  const releases = manyReleases(environments, 3);
  storeRunning(api, releases, options);
  await insertRunning(platform.pool, releases);
  return { api, platform, options, releases, warnings };
}

/** Starts a deployer on the simulated cluster; what it builds and stores is on this machine. */
async function startDeployer(platform: TestPlatform, options: KubernetesRuntimeOptions) {
  const config = readConfig({ ...platform.env, PLAN_QUOTAS: "off" }, fields);
  const deployer = await start(config, LOG, async (_, secrets): Promise<Engine> => {
    const local = await startLocalEngine(config, secrets, LOG);
    const environments = createEnvironments(options);
    const runtime = createKubernetesRuntime(options, environments);
    await runtime.start();
    const addonServers = createKubernetesAddons({
      ...{ kube: options.kube, log: LOG, namespacePrefix: options.namespacePrefix, user: 999 },
      ensureNamespace: environments.ensure,
      hasNamespace: environments.has,
      images: { postgres: "example.test/postgres", redis: "example.test/redis" },
      storage: { size: "1Gi" },
    });
    const stop = async () => {
      await Promise.all([runtime.stop(), addonServers.stop(), local.stop()]);
      await environments.stop();
    };
    return { ...local, runtime, addonServers, stop };
  });
  stops.push(deployer.stop);
}

const count = ({ calls }: KubeApi, verb: string, plural: string) =>
  calls.filter((call) => call.verb === verb && call.plural === plural).length;

/** Waits until the database was compared with the cluster, and nothing is due or in hand. */
async function atRest({ pool }: TestPlatform): Promise<void> {
  const none = async (sql: string) => (await pool.query(`${sql} limit 1`)).rowCount === 0;
  const compared = () => none("select from usage_intervals where seen_at < now() - interval '1 day'");
  await eventually("all was compared", compared, PATIENCE_MS);
  await eventually("nothing is due", () =>
    none("select from work where lease_owner is not null or next_at < now() + interval '10 seconds'"),
  );
}

test("a deployer that starts beside 1 000 environments whose 3 000 services run applies nothing", async () => {
  const { api, platform, options } = await running(1_000);
  await startDeployer(platform, options);
  const compared = async () => count(api, "list", "ingresses") >= 1_000;
  await eventually("each namespace was compared", compared, PATIENCE_MS);
  await atRest(platform);
  expect(api.writes()).toEqual([]);
});

test("a deployer is ready once it has read all namespaces, and not before", async () => {
  const { api, platform, options } = await running(5);
  const last = Promise.withResolvers<void>();
  api.beforeEach(({ verb, plural, namespace }) => {
    if (verb === "list" && plural === "pods" && namespace === "many-env-3") return last.promise;
  });
  let started = false;
  const starting = startDeployer(platform, options).then(() => {
    started = true;
  });
  // Of the namespaces, and two in each but for one.
  await eventually("it has read all others", async () => api.watches().length === 1 + 9);
  const ready = () => fetch(`http://127.0.0.1:${platform.port}/readyz`);
  await expect(ready()).rejects.toThrow();
  expect(started).toBe(false);
  last.resolve();
  await starting;
  expect((await ready()).status).toBe(200);
  await atRest(platform);
  expect(api.writes()).toEqual([]);
});

test("of a namespace that cannot be read nothing is decided until it can, while the others go on", async () => {
  const { api, platform, options, releases, warnings } = await running(5);
  const deployments = { apiVersion: "apps/v1", plural: "deployments" };
  let refuses = true;
  api.beforeEach(({ namespace, verb }) => {
    if (refuses && namespace === "many-env-2" && verb === "list")
      throw new Refusal(500, "etcdserver: no leader");
  });
  // Gone while no deployer ran: one where it can be seen, one where it cannot.
  api.store.remove({ ...deployments, namespace: "many-env-1" }, "web0");
  api.store.remove({ ...deployments, namespace: "many-env-2" }, "web0");
  // Users wait for the removal of one more.
  await platform.pool.query("update services set deleting_at = now() where id = 'svc_2_1'");
  await startDeployer(platform, options);
  const isThere = (environment: number) => async () =>
    api.store.find({ ...deployments, namespace: `many-env-${environment}` }, "web0") !== undefined;
  await eventually("what can be seen to be gone is applied again", isThere(1));
  const undecided = () => api.writes().filter(({ namespace }) => namespace === "many-env-2");
  const tries = () =>
    api.calls.filter(({ namespace, verb }) => namespace === "many-env-2" && verb === "list").length;
  const before = tries();
  await eventually("it was tried again", async () => tries() > before + 2);
  expect(undecided()).toEqual([]);
  const shown = await platform.pool.query(
    "select runtime_state from services where environment_id = 'env_2'",
  );
  expect(shown.rows.map((row) => row.runtime_state)).toEqual(["running", "running", "running"]);
  const told = warnings.filter(({ namespace }) => namespace === "many-env-2");
  expect(told.map(({ kind }) => kind).sort()).toEqual(["Deployment", "Pod"]);
  expect(String(told[0]?.err)).toContain("no leader");

  refuses = false;
  await eventually("it is decided", isThere(2));
  await eventually("the deleted one is removed", async () => {
    const { rowCount } = await platform.pool.query("select from services where id = 'svc_2_1'");
    return rowCount === 0 && !api.store.find({ ...deployments, namespace: "many-env-2" }, "web1");
  });
  const changed = new Set(api.writes().map(({ namespace, name }) => `${namespace}/${name}`));
  for (const { environmentId, names } of releases)
    if (names.service === "web2")
      expect(changed).not.toContain(`many-${environmentId.replace("_", "-")}/web2`);
});

test("a deployer leaves running what its database lost in a restore, and comes to rest", async () => {
  const { api, platform, options } = await running(4);
  // The backup was made before these: an environment, a service, a deployment, a change of variables.
  const lost = "environment_id = 'env_0' or id = 'svc_1_0'";
  for (const table of ["work", "usage_intervals", "deployments"])
    await platform.pool.query(
      `delete from ${table} where service_id in (select id from services where ${lost})`,
    );
  for (const statement of [
    `delete from services where ${lost}`,
    "delete from environments where id = 'env_0'",
    "truncate removed",
    "update deployments set version = version - 1 where service_id = 'svc_2_0'",
    "update services set live_version = live_version - 1, next_version = next_version - 1 where id = 'svc_2_0'",
    "update services set variables_revision = 0, applied_revision = 0 where id = 'svc_3_0'",
  ])
    await platform.pool.query(statement);
  await startDeployer(platform, options);
  await atRest(platform);
  expect(api.writes()).toEqual([]);
});
