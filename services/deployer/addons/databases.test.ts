import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { addonAdmin } from "./testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
});
afterAll(() => berth?.stop());

test("a postgres addon becomes a database of its own, reached with the keys it publishes, and goes with the service", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const { catalog } = acting;
  const environment = await acting.environment();
  const made = await catalog.createService({ ...environment, name: "db", type: "postgres" });
  await acting.untilService(environment.at("db"), "running");
  const { ready, keys, revision } = await berth.asService.getAddonKeys({ serviceId: made.id });
  expect([ready, revision]).toEqual([true, 1n]);
  expect(keys.map((one) => one.key).sort()).toEqual([
    "DATABASE",
    "HOST",
    "PASSWORD",
    "POOLED_URL",
    "PORT",
    "URL",
    "USER",
  ]);
  const secret = keys.filter((one) => one.sensitive).map((one) => one.key);
  expect(secret.sort()).toEqual(["PASSWORD", "POOLED_URL", "URL"]);
  const value = (key: string) => keys.find((one) => one.key === key)!.value;

  const app = new pg.Client({ connectionString: value("URL") });
  await app.connect();
  await app.query("create table notes (text text)");
  expect((await app.query("select current_user as name")).rows[0].name).toBe(value("USER"));
  const stored = await berth.pool.query("select s::text as row from services s where id = $1", [made.id]);
  const password = value("PASSWORD");
  for (const text of [password, Buffer.from(password).toString("hex")])
    expect(stored.rows[0].row).not.toContain(text);
  await eventually("the keys are published", async () =>
    (await berth.eventsOf(acting.accountId)).includes("AddonKeysPublished"),
  );

  const { context } = await refusal(catalog.deleteService(environment.at("db")));
  const { environmentId } = environment;
  expect(context).toEqual({ impact: { total: 1, services: [{ id: made.id, name: "db", environmentId }] } });
  app.on("error", () => {});
  await catalog.deleteService({ ...environment.at("db"), confirmImpact: true });
  await eventually("the service is gone", async () =>
    refused(catalog.getService(environment.at("db"))).then(
      () => true,
      () => false,
    ),
  );
  const admin = new pg.Client({ connectionString: inject("postgresAdminUrl") });
  await admin.connect();
  const left = await admin.query(
    "select from pg_database where datname = $1 union all select from pg_roles where rolname = $1",
    [value("USER")],
  );
  await admin.end();
  expect(left.rowCount).toBe(0);
});

test("an addon of one service opens no database of another", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const urls = await Promise.all(
    ["one", "two"].map(async (name) => {
      const { id } = await acting.catalog.createService({ ...environment, name, type: "postgres" });
      await acting.untilService(environment.at(name), "running");
      const { keys } = await berth.asService.getAddonKeys({ serviceId: id });
      return new URL(keys.find((one) => one.key === "URL")!.value);
    }),
  );
  const crossed = new URL(urls[0]!);
  crossed.pathname = urls[1]!.pathname;
  const app = new pg.Client({ connectionString: crossed.href });
  await expect(app.connect()).rejects.toThrow(/permission denied/);
});

test("whoever stays connected to what databases are usually copied from keeps no other from being made", async () => {
  const made = async () => {
    const acting = actAs(berth.port, newId("acc"));
    const environment = await acting.environment();
    const { id } = await acting.catalog.createService({ ...environment, name: "db", type: "postgres" });
    await acting.untilService(environment.at("db"), "running");
    const { keys } = await berth.asService.getAddonKeys({ serviceId: id });
    return new URL(keys.find((one) => one.key === "URL")!.value);
  };
  const common = await made();
  common.pathname = "/template1";
  const app = new pg.Client({ connectionString: common.href });
  app.on("error", () => {});
  await app.connect();
  try {
    await made();
  } finally {
    await app.end();
  }
});

test("a staged addon is provisioned when the environment is applied", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const made = await acting.catalog.createService({
    ...environment,
    name: "db",
    type: "postgres",
    staged: true,
  });
  expect(made).toMatchObject({ status: "staged", staged: true });
  expect((await acting.catalog.applyEnvironment(environment)).applied).toEqual([made.id]);
  expect(await acting.untilService(environment.at("db"), "running")).toMatchObject({ staged: false });
  expect((await acting.catalog.applyEnvironment(environment)).applied).toEqual([]);
});
