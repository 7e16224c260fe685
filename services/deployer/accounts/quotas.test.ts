import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ DEFAULT_TIER: "free" });
});
afterAll(() => berth?.stop());

const QUOTA = "403 quota_exceeded";

const someone = () => actAs(berth.port, newId("acc"));

/** Has billing report a plan. Returns when the report was handled. */
async function changeTier(accountId: string, tier: string, revision: bigint): Promise<void> {
  const marker = newId("acc"); // events are handled in order
  await berth.variables.publish(TierChangedSchema, accountId, { accountId, tier, revision });
  await berth.variables.publish(TierChangedSchema, marker, { accountId: marker, tier: "pro", revision: 1n });
  await eventually("the report was handled", async () => {
    const { rows } = await berth.pool.query("select from accounts where id = $1", [marker]);
    return rows.length === 1;
  });
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "made",
    () => refused(call),
  );

/** Makes the calls wait for each other at the commit of the first, if they do, and returns their outcomes, sorted. */
async function atOnce(table: string, accountId: string, calls: (() => Promise<unknown>)[]) {
  const held = await holdCommits(berth, "insert", table, `new.account_id = '${accountId}'`);
  const outcomes = calls.map((call) => outcome(call()));
  await eventually("all wait", async () => {
    const { rows } = await berth.pool.query<{ n: number }>(
      `select count(*) as n from pg_stat_activity
       where datname = current_database() and application_name = 'deployer' and wait_event_type = 'Lock'`,
    );
    return rows[0]!.n >= calls.length;
  });
  await held.release("kept");
  return (await Promise.all(outcomes)).sort();
}

describe("on the free plan", () => {
  test("an account has one project, and is shown how to get more", async () => {
    const { accountId, catalog } = someone();
    const { id: projectId } = await catalog.createProject({ accountId, name: "one" });
    const second = await refusal(catalog.createProject({ accountId, name: "two" }));
    expect(second).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 1 } });
    expect(second.message).toContain("projects are limited to 1");
    expect(second.message).toContain(`POST /accounts/${accountId}/subscription`);
    await catalog.deleteProject({ accountId, projectId });
    await catalog.createProject({ accountId, name: "two" });
  });

  test("of projects that are created at once, one is", async () => {
    const { accountId, catalog } = someone();
    const calls = ["one", "two", "three"].map((name) => () => catalog.createProject({ accountId, name }));
    expect(await atOnce("projects", accountId, calls)).toEqual([QUOTA, QUOTA, "made"]);
    expect((await catalog.listProjects({ accountId })).data).toHaveLength(1);
  });

  test("an account has one service of each type, whatever the environment, staged or not", async () => {
    const { accountId, catalog, environment } = someone();
    const { project: _, at: _at, ...first } = await environment();
    const { projectId } = first;
    const { id: environmentId } = await catalog.createEnvironment({ accountId, projectId, name: "staging" });
    for (const type of ["web", "worker", "postgres", "redis"]) {
      await catalog.createService({ ...first, name: type, type, staged: true });
      const second = await refusal(
        catalog.createService({ ...first, environmentId, name: `${type}2`, type, staged: true }),
      );
      expect(second).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 1 } });
      expect(second.message).toContain(`services of type ${type} are limited to 1`);
    }
    await catalog.deleteService({ ...first, service: "web" });
    await catalog.createService({ ...first, environmentId, name: "web2", type: "web" });
  });

  test("of services that are created at once, one is", async () => {
    const { accountId, catalog, environment } = someone();
    const at = await environment();
    const calls = ["one", "two", "three"].map(
      (name) => () => catalog.createService({ ...at, name, type: "web" }),
    );
    expect(await atOnce("services", accountId, calls)).toEqual([QUOTA, QUOTA, "made"]);
  });

  test("a service has size nano and one replica, or none", async () => {
    const { catalog, environment } = someone();
    const at = await environment();
    const create = (type: string, config: object) =>
      catalog.createService({ ...at, name: "app", type, config });
    expect(await refusal(create("web", { size: "small" }))).toMatchObject({
      code: "quota_exceeded",
      context: { limit: "nano" },
    });
    expect(await refused(create("web", { replicas: 2 }))).toBe(QUOTA);
    expect(await refused(create("redis", { size: "large" }))).toBe(QUOTA);
    await create("web", {});
    const update = (config: object) => catalog.updateService({ ...at, service: "app", config });
    expect(await refused(update({ size: "medium" }))).toBe(QUOTA);
    expect(await refused(update({ replicas: 2 }))).toBe(QUOTA);
    expect((await update({ replicas: 0 })).config).toMatchObject({ replicas: 0, size: "nano" });
    expect((await update({ replicas: 1 })).config).toMatchObject({ replicas: 1, size: "nano" });
  });
});

test("an account that goes back to free keeps what it has, and gets no more", async () => {
  const { accountId, catalog, deployments, environment } = someone();
  await changeTier(accountId, "pro", 1n);
  const at = await environment();
  await environment();
  for (const name of ["web", "web2"])
    await catalog.createService({ ...at, name, type: "web", config: { size: "large", replicas: 3 } });
  await changeTier(accountId, "free", 2n);

  expect((await catalog.listProjects({ accountId })).data).toHaveLength(2);
  expect(await refused(catalog.createProject({ accountId, name: "third" }))).toBe(QUOTA);
  expect(await refused(catalog.createService({ ...at, name: "web3", type: "web" }))).toBe(QUOTA);
  const update = (config: object) => catalog.updateService({ ...at, service: "web", config });
  expect((await update({ env: { MODE: "kept" } })).config).toMatchObject({ size: "large", replicas: 3 });
  expect(await refused(update({ replicas: 4 }))).toBe(QUOTA);
  expect((await update({ size: "medium", replicas: 2 })).config).toMatchObject({ size: "medium" });
  expect(await refused(update({ size: "large" }))).toBe(QUOTA);
  expect(await refused(update({ replicas: 3 }))).toBe(QUOTA);
  expect((await deployments.deploy({ ...at.at("web2"), image: "shop/web:1" })).version).toBe(1);

  await changeTier(accountId, "team", 3n);
  expect((await update({ size: "large", replicas: 20 })).config).toMatchObject({ replicas: 20 });
  await catalog.createProject({ accountId, name: "third" });
});

test("a plan allows so many addons, each with a volume, whatever their type and environment", async () => {
  const { accountId, catalog, environment } = someone();
  await changeTier(accountId, "pro", 1n);
  const places = [await environment(), await environment()];
  const add = (n: number) =>
    catalog.createService({
      ...places[n % 2]!,
      name: `db${n}`,
      type: n % 3 ? "postgres" : "redis",
      staged: true,
    });
  for (let n = 0; n < 20; n++) await add(n);
  const more = await refusal(add(20));
  expect(more).toMatchObject({ status: 403, code: "quota_exceeded", context: { limit: 20 } });
  expect(more.message).toContain("addons, each with a volume, are limited to 20");
  await catalog.createService({ ...places[0]!, name: "web", type: "web", staged: true });
  await catalog.deleteService({ ...places[0]!, service: "db0" });
  await add(20);
  await changeTier(accountId, "enterprise", 2n);
  await add(21);
});

test("a rollback to more than the plan allows is refused, as a dry run says", async () => {
  const { accountId, id, deployments, path, tryOut } = await createWebService(berth.port);
  await berth.pool.query(
    `insert into deployments (id, service_id, version, status, config, source, image, artifact, healthy_at)
     select 'dep_' || md5($1 || n), $1, n, 'applied', jsonb_build_object('size', 'nano', 'replicas', n, 'port', 8080),
       '{}', 'web:' || n, 'image:web:' || n, now() from generate_series(1, 3) n`,
    [id],
  );
  await berth.pool.query("update services set next_version = 4, live_version = 3 where id = $1", [id]);
  const toTwo = { ...path, version: 2 };
  expect(await refusal(deployments.rollback(toTwo))).toMatchObject({ status: 403, context: { limit: 1 } });
  expect((await tryOut.rollback(toTwo)).refusal).toMatchObject({ status: 403, code: "quota_exceeded" });
  expect((await deployments.rollback({ ...path, version: 1 })).version).toBe(4);
  await changeTier(accountId, "pro", 1n);
  expect((await deployments.rollback(toTwo)).version).toBe(5);
});

test("an older report of billing, or the same again, never overtakes a newer one", async () => {
  const { accountId, catalog } = someone();
  const made = (name: string) => outcome(catalog.createProject({ accountId, name }));
  expect([await made("one"), await made("two")]).toEqual(["made", QUOTA]);
  await changeTier(accountId, "pro", 5n);
  expect(await made("two")).toBe("made");
  for (const revision of [0n, 4n, 5n]) await changeTier(accountId, "free", revision);
  expect(await made("three")).toBe("made");
  await changeTier(accountId, "free", 2n ** 53n + 1n);
  expect(await made("four")).toBe(QUOTA);
  await changeTier(accountId, "pro", 2n ** 53n);
  expect(await made("four")).toBe(QUOTA);
});

test("a plan that only a newer version knows is recorded for it, and until then counts as the default one", async () => {
  const { accountId, catalog } = someone();
  const made = (name: string) => outcome(catalog.createProject({ accountId, name }));
  await changeTier(accountId, "pro", 1n);
  expect([await made("one"), await made("two")]).toEqual(["made", "made"]);
  await changeTier(accountId, "business", 2n);
  const { rows } = await berth.pool.query("select tier from accounts where id = $1", [accountId]);
  expect(rows).toEqual([{ tier: "business" }]);
  expect(await made("three")).toBe(QUOTA);
});

test("a report without a revision counts until there is one with", async () => {
  const { accountId, catalog } = someone();
  const made = (name: string) => outcome(catalog.createProject({ accountId, name }));
  await changeTier(accountId, "pro", 0n);
  expect([await made("one"), await made("two")]).toEqual(["made", "made"]);
  await changeTier(accountId, "free", 1n);
  expect(await made("three")).toBe(QUOTA);
  await changeTier(accountId, "pro", 0n);
  expect(await made("three")).toBe(QUOTA);
});
