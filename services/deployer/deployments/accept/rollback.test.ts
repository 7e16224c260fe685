import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refusal, refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  FREE_PLAN,
  freePlan,
  startDeployer,
  type TestDeployer,
  visit,
} from "../../testing/testing.ts";
import { expireAllArtifacts } from "../retention-sql.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer(FREE_PLAN);
});
afterAll(() => berth?.stop());

/** An app that answers with what it is, and its environment. */
const app = (edition: string) =>
  archiveOf({
    "package.json": JSON.stringify({ name: "app", scripts: { start: "node server.js" } }),
    "server.js": `require("node:http").createServer((req, res) =>
      res.end(JSON.stringify({ edition: "${edition}", ...process.env }))).listen(process.env.PORT);`,
  });

const webService = (more?: object) => createWebService(berth.port, more);

type Web = Awaited<ReturnType<typeof webService>>;

const healthy = ({ deployments, path }: Web, version: number) =>
  eventually(`version ${version} is healthy`, async () => {
    const found = await deployments.getDeployment({ ...path, version });
    return found.healthyAt !== undefined && found;
  });

async function deployEdition(web: Web, edition: string): Promise<number> {
  const { version } = await web.deployArchive(web.path, await app(edition));
  await healthy(web, version);
  return version;
}

async function shown(web: Web): Promise<Record<string, string>> {
  const { url } = await web.catalog.getService(web.path);
  return JSON.parse((await visit(url!)).text);
}

/** Makes versions of history that were live, as if they had been deployed: what an account has after a while. */
async function wereLive(web: Web, versions: number): Promise<void> {
  await berth.pool.query(
    `with taken as (update services set next_version = next_version + $2 where id = $1
       returning next_version - $2 as first)
     insert into deployments (id, service_id, version, status, config, source, image, artifact, healthy_at)
     select 'dep_' || md5($1 || first || n), $1, first + n, 'applied', '{"size":"nano","replicas":1,"port":8080}', '{}',
       'shop/web:' || n, 'image:shop/web:' || n, now() from taken, generate_series(0, $2::int - 1) n`,
    [web.id, versions],
  );
}

test("a rollback runs what the version ran, with its configuration and the current variables, as a new version", async () => {
  const web = await webService({ config: { env: { MODE: "old" } } });
  berth.variables.set(web.id, [{ name: "GREETING", value: "first" }]);
  await deployEdition(web, "one");
  await web.catalog.updateService({ ...web.path, config: { env: { MODE: "new" } } });
  berth.variables.set(web.id, [{ name: "GREETING", value: "second" }]);
  await deployEdition(web, "two");
  expect(await shown(web)).toMatchObject({ edition: "two", MODE: "new", GREETING: "second" });
  const before = (await web.deployments.listDeployments(web.path)).data;

  const accepted = await web.deployments.rollback({ ...web.path, version: 1 });
  expect(accepted).toMatchObject({ version: 3, status: "queued", builtVersion: 1, warnings: [] });
  for (const member of ["archiveRef", "buildId", "buildStartedAt", "builtAt", "branch", "commit"] as const)
    expect([member, accepted[member]]).toEqual([member, undefined]);
  await healthy(web, 3);
  expect(await shown(web)).toMatchObject({ edition: "one", MODE: "old", GREETING: "second" });
  const after = (await web.deployments.listDeployments(web.path)).data;
  expect(after.slice(1)).toEqual(before); // history is what it was
  const log = await refusal(web.deployments.getBuildLogs({ ...web.path, version: 3 }));
  expect(log).toMatchObject({ status: 404, code: "not_found", context: { builtVersion: 1 } });
  expect(log.message).toContain("what version 1 built");
  const service = await web.catalog.getService(web.path);
  expect(service).toMatchObject({ liveVersion: 3, config: { env: { MODE: "new" } }, pendingChanges: true });
  expect(await web.deployments.rollback({ ...web.path, version: 2 })).toMatchObject({ version: 4 });
  await healthy(web, 4);
  expect(await shown(web)).toMatchObject({ edition: "two", MODE: "new" });
});

test("each impossible rollback is refused with its reason, in order, and takes no version", async () => {
  const web = await webService();
  const rollback = (version: number) => refused(web.deployments.rollback({ ...web.path, version }));
  expect(await rollback(0)).toBe("422 validation_failed required");
  expect(await rollback(1)).toBe("404 not_found");
  await wereLive(web, 7);
  await web.deployments.deploy({ ...web.path, image: "shop/web:8" });
  await web.until(web.path, 8, "failed");
  await berth.pool.query("update services set live_version = 7 where id = $1", [web.id]);
  expect(await rollback(9)).toBe("404 not_found");
  expect(await rollback(8)).toBe("409 version_never_live");
  expect(await rollback(7)).toBe("409 version_is_current");
  const beyond = await refusal(web.deployments.rollback({ ...web.path, version: 2 }));
  expect(beyond).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 5 } });
  const spoil = (set: string, version: number) =>
    berth.pool.query(`update deployments set ${set} where service_id = $1 and version = $2`, [
      web.id,
      version,
    ]);
  await spoil("artifact = null", 3);
  expect(await rollback(3)).toBe("422 validation_failed image_not_restorable");
  await spoil(`config = '{"size":"huge","replicas":1}'`, 3);
  expect(await rollback(3)).toBe("422 validation_failed configuration_frozen");
  await spoil("healthy_at = null", 3);
  expect(await rollback(3)).toBe("409 version_never_live");
  expect((await web.deployments.listDeployments(web.path)).data[0]!.version).toBe(8);

  await web.catalog.createService({ ...web.environment, name: "db", type: "postgres" });
  const addon = web.deployments.rollback({ ...web.environment.at("db"), version: 1 });
  expect(await refused(addon)).toBe("422 validation_failed not_deployable");
  const reader = actAs(berth.port, web.accountId, "reader");
  expect(await refused(reader.deployments.rollback({ ...web.path, version: 1 }))).toBe("403 forbidden");
  expect(await refused(web.deployments.rollback({ ...web.environment.at("none"), version: 1 }))).toBe(
    "404 not_found",
  );
});

test("a rollback that scales down what is live says so, when it is tried out and when it is accepted", async () => {
  const web = await webService({ config: { minReadySeconds: 0 } });
  await deployEdition(web, "one");
  await web.catalog.updateService({ ...web.path, config: { replicas: 2, size: "small" } });
  await deployEdition(web, "two");
  await berth.pool.query(
    `update deployments set config = config || '{"replicas": 1, "size": "nano"}' where service_id = $1 and version = 1`,
    [web.id],
  );
  const expected = [
    { stage: "apply", code: "scales_down", message: expect.stringContaining("1 replica instead of 2") },
  ];
  const tried = await web.tryOut.rollback({ ...web.path, version: 1 });
  expect(tried).toMatchObject({ eligible: true, warnings: expected, diff: { config: ["replicas", "size"] } });
  expect(tried.warnings[0]!.message).toContain("the size nano instead of small");
  const accepted = await web.deployments.rollback({ ...web.path, version: 1 });
  expect(accepted.warnings).toMatchObject(expected);
  expect((await healthy(web, accepted.version)).warnings).toMatchObject(expected);
  // Back to what is configured: that is more.
  expect((await web.tryOut.rollback({ ...web.path, version: 2 })).warnings).toEqual([]);
  expect((await web.deployments.rollback({ ...web.path, version: 2 })).warnings).toEqual([]);
});

test("a rollback supersedes what is under way", async () => {
  const web = await webService();
  await deployEdition(web, "one");
  await deployEdition(web, "two");
  const open = berth.variables.hold();
  await web.deployArchive(web.path, await app("three"));
  await web.deployments.rollback({ ...web.path, version: 1 });
  expect((await web.deployments.getDeployment({ ...web.path, version: 3 })).status).toBe("superseded");
  open();
  await healthy(web, 4);
  expect(await shown(web)).toMatchObject({ edition: "one" });
});

/** The folder of what a version runs. */
async function folderOf(web: Web, version: number): Promise<string> {
  const text = "select artifact from deployments where service_id = $1 and version = $2";
  const { rows } = await berth.pool.query<{ artifact: string }>(text, [web.id, version]);
  return join(berth.dataDir, "artifacts", rows[0]!.artifact.split(":")[1]!);
}

test("an artifact is kept while a version that runs it can be rolled back to, and is removed afterwards", async () => {
  const web = await webService();
  await deployEdition(web, "one");
  const first = await folderOf(web, 1);
  await web.deployments.deploy(web.path); // the same build again
  await healthy(web, 2);
  await wereLive(web, 3);
  await deployEdition(web, "six");
  const sixth = await folderOf(web, 6);
  await eventually("the first version is let go", async () => {
    const text = "select artifact, leftover from deployments where service_id = $1 and version = 1";
    const { rows } = await berth.pool.query(text, [web.id]);
    return rows[0].artifact === null && !rows[0].leftover;
  });
  expect(await refused(web.deployments.rollback({ ...web.path, version: 1 }))).toBe("403 quota_exceeded");
  await web.deployments.rollback({ ...web.path, version: 2 });
  await healthy(web, 7);
  expect(await shown(web)).toMatchObject({ edition: "one" });
  expect([first, sixth].map((folder) => existsSync(folder))).toEqual([true, true]);

  await wereLive(web, 5);
  await deployEdition(web, "last");
  await eventually("what nobody can go back to is removed", async () =>
    [first, sixth].every((folder) => !existsSync(folder)),
  );
  expect(await shown(web)).toMatchObject({ edition: "last" });
  expect(existsSync(await folderOf(web, 13))).toBe(true);
});

test("what a smaller plan does not retain is removed without a deployment", async () => {
  const web = await webService();
  await deployEdition(web, "one");
  const folder = await folderOf(web, 1);
  const plan = (tier: string) =>
    berth.pool.query("update accounts set tier = $2 where id = $1", [web.accountId, tier]);
  await plan("pro");
  await wereLive(web, 6);
  await deployEdition(web, "eight");
  expect((await web.tryOut.rollback({ ...web.path, version: 1 })).eligible).toBe(true);
  await expireAllArtifacts(berth.pool, freePlan);
  expect((await web.tryOut.rollback({ ...web.path, version: 1 })).eligible).toBe(true);
  await plan("free");
  await expireAllArtifacts(berth.pool, freePlan);
  await eventually("it is removed", async () => !existsSync(folder));
  await plan("pro"); // too late
  const late = web.deployments.rollback({ ...web.path, version: 1 });
  expect(await refused(late)).toBe("422 validation_failed image_not_restorable");
});

test("a version that was never live is not retained once another is live", async () => {
  const web = await webService();
  const manifest = JSON.stringify({ name: "broken", scripts: { start: "exit 1" } });
  const { version } = await web.deployArchive(web.path, await archiveOf({ "package.json": manifest }));
  await web.until(web.path, version, "applied");
  const folder = await folderOf(web, version);
  expect(existsSync(folder)).toBe(true);
  await deployEdition(web, "sound");
  await eventually("it is removed", async () => !existsSync(folder));
});
