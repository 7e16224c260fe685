import { expect, test } from "vitest";
import { Refusal } from "../../../../../test/support/kube-api/store.ts";
import { freePort } from "../../../../kit/process/free-port.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { atRest, ofApps, PATIENCE_MS, running, startDeployer } from "./testing-run.ts";

test("a deployer that starts beside 1 000 environments whose 3 000 services run asks little and applies nothing", async () => {
  const { api, platform, options } = await running(1_000, { compareMs: 10 });
  await startDeployer(platform, options);
  // Their metadata alone is asked for in each namespace, of fifty at a time.
  const inTurn = ({ plural }: { plural: string }) => plural === "secrets";
  const compared = async () => api.calls.filter(inTurn).length >= 1_000;
  await eventually("each namespace was compared", compared, PATIENCE_MS);
  await atRest(platform);
  expect(ofApps(api.writes())).toEqual([]);
  const watched = ["deployments", "ingresses", "namespaces", "pods", "pods", "services", "statefulsets"];
  expect(
    api
      .watches()
      .map(({ plural }) => plural)
      .sort(),
  ).toEqual(watched);
  // Lists in pages of 500: two of namespaces, six of each kind that every service has, one of each of addons.
  const lists = api.calls.filter((call) => call.verb === "list" && !inTurn(call));
  // On a busy machine some are lost and asked for again, but nothing is for each of the environments.
  const pages = 2 + 4 * 6 + 2;
  expect(lists.length).toBeGreaterThanOrEqual(pages);
  expect(lists.length).toBeLessThan(2 * pages);
  const others = ofApps(api.calls).filter((call) => call.verb !== "list" && call.verb !== "watch");
  expect(others).toEqual([]);
});

test("a deployer is ready once it has read all namespaces, and not before", async () => {
  const { api, platform, options } = await running(5, { watch: "namespaces" });
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
  const ready = () => fetch(`http://127.0.0.1:${platform.port}/readyz?exclude=events`);
  await expect(ready()).rejects.toThrow();
  expect(started).toBe(false);
  last.resolve();
  await starting;
  expect((await ready()).status).toBe(200);
  await atRest(platform);
  expect(ofApps(api.writes())).toEqual([]);
});

test("while the one watch of the cluster's pods has read nothing, nothing at all is decided", async () => {
  const { api, platform, options } = await running(3);
  let refuses = true;
  api.beforeEach(({ verb, plural }) => {
    if (refuses && verb === "list" && plural === "pods") throw new Refusal(500, "etcdserver: no leader");
  });
  const scope = { apiVersion: "apps/v1", plural: "deployments", namespace: "many-env-1" };
  api.store.remove(scope, "web0");
  await startDeployer(platform, options);
  const tries = () => api.calls.filter(({ verb, plural }) => verb === "list" && plural === "pods").length;
  const before = tries();
  await eventually("it was tried again", async () => tries() > before + 2);
  expect(ofApps(api.writes())).toEqual([]);
  refuses = false;
  await eventually("what is gone is applied again", async () => api.store.find(scope, "web0") !== undefined);
  const changed = ofApps(api.writes()).filter(({ namespace }) => namespace?.startsWith("many-env-"));
  expect(new Set(changed.map(({ namespace }) => namespace))).toEqual(new Set(["many-env-1"]));
});

test("of a namespace that cannot be read nothing is decided until it can, while the others go on", async () => {
  const { api, platform, options, releases, warnings } = await running(5, { watch: "namespaces" });
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
  const undecided = () => ofApps(api.writes()).filter(({ namespace }) => namespace === "many-env-2");
  const tries = () =>
    api.calls.filter(({ namespace, verb }) => namespace === "many-env-2" && verb === "list").length;
  const before = tries();
  await eventually("it was tried again", async () => tries() > before + 2);
  expect(undecided()).toEqual([]);
  const shown = await platform.pool.query(
    "select runtime_state from services where environment_id = 'env_2'",
  );
  expect(shown.rows.map((row) => row.runtime_state)).toEqual(["running", "running", "running"]);
  const reported = warnings.filter(({ namespace }) => namespace === "many-env-2");
  expect(reported.map(({ kind }) => kind).sort()).toEqual(["Deployment", "Pod"]);
  expect(String(reported[0]?.err)).toContain("no leader");

  refuses = false;
  await eventually("it is decided", isThere(2));
  await eventually("the deleted one is removed", async () => {
    const { rowCount } = await platform.pool.query("select from services where id = 'svc_2_1'");
    return rowCount === 0 && !api.store.find({ ...deployments, namespace: "many-env-2" }, "web1");
  });
  const changed = new Set(ofApps(api.writes()).map(({ namespace, name }) => `${namespace}/${name}`));
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
  expect(ofApps(api.writes())).toEqual([]);
});

test("in a roll-out to other doors the new deployer asks and compares nothing while the old one decides, and then moves each app once", async () => {
  const { api, platform, options } = await running(2, { compareMs: 3_600_000 });
  const old = await startDeployer(platform, options);
  await atRest(platform);
  const secrets = () => api.calls.filter(({ plural }) => plural === "secrets");
  await eventually("all was read", async () => api.watches().length === 7 && secrets().length === 2);
  const asked = ofApps(api.calls).length;
  const route = { enabled: true, parentRefs: [{ name: "berth", namespace: "gateways" }] };
  const httpRoute = { ...route, annotations: {}, timeouts: {} };
  await startDeployer(platform, { ...options, httpRoute }, String(await freePort()));
  const reconcilers = await platform.pool.query(
    "select from pg_stat_activity where application_name = 'deployer-leases' and datname = current_database()",
  );
  expect(reconcilers.rowCount).toBe(1);
  expect(ofApps(api.calls)).toHaveLength(asked);

  await old.stop();
  const routes = () => ofApps(api.writes()).filter(({ plural }) => plural === "httproutes");
  await eventually("each app is moved", async () => routes().length >= 6);
  await atRest(platform);
  expect(routes().map(({ verb }) => verb)).toEqual(Array(6).fill("apply"));
});
