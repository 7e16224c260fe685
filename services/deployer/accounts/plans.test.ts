import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import { actAs, createWebService, FREE_PLAN, startDeployer, startTestPlatform } from "../testing/testing.ts";
import { deployerProcess } from "../testing/testing-process.ts";

// What an installation's settings say of accounts that billing has said nothing about.

const TOO_LARGE = "422 validation_failed archive_too_large";
const QUOTA = "403 quota_exceeded";

/** Returns what two projects, another size, and an upload of so many MiB are answered in a new account. */
async function answers(port: number, mib: number) {
  const { accountId, catalog, deployments, path } = await createWebService(port);
  const answer = (call: Promise<unknown>) =>
    call.then(
      () => "accepted",
      () => refused(call),
    );
  return [
    await answer(catalog.createProject({ accountId, name: "second" })),
    await answer(catalog.updateService({ ...path, config: { size: "large", replicas: 2 } })),
    await answer(deployments.createUpload({ ...path, sizeBytes: mib * 1024 ** 2 })),
  ];
}

test.each([
  [{}, 500, ["accepted", "accepted", "accepted"]],
  [{}, 501, ["accepted", "accepted", TOO_LARGE]],
  [{ DEFAULT_TIER: "free" }, 251, [QUOTA, QUOTA, TOO_LARGE]],
  [FREE_PLAN, 251, ["accepted", "accepted", TOO_LARGE]],
  [{ DEFAULT_TIER: "pro" }, 500, ["accepted", "accepted", "accepted"]],
])("with %j, a new account that uploads %i MiB is answered %j", async (settings, mib, expected) => {
  const berth = await startDeployer(settings);
  expect(await answers(berth.port, mib)).toEqual(expected);
  await berth.stop();
});

test("what billing reported holds while billing is away, also after a crash and with another default", async () => {
  const platform = await startTestPlatform();
  const accountId = newId("acc");
  const { catalog } = actAs(platform.port, accountId);
  const create = (name: string) => catalog.createProject({ accountId, name });
  const first = deployerProcess({ ...platform, env: { ...platform.env, DEFAULT_TIER: "free" } });
  await first.run();
  await create("one");
  expect(await refused(create("two"))).toBe(QUOTA);
  await platform.variables.publish(TierChangedSchema, accountId, { accountId, tier: "pro", revision: 1n });
  await eventually("the plan is known", () =>
    create("two").then(
      () => true,
      () => false,
    ),
  );
  await first.end("SIGKILL");
  await first.run();
  await create("three");
  await platform.variables.publish(TierChangedSchema, accountId, { accountId, tier: "free", revision: 2n });
  await eventually("the plan is known", async () => {
    const { rows } = await platform.pool.query("select tier from accounts where id = $1", [accountId]);
    return rows[0].tier === "free";
  });
  await first.end("SIGKILL");
  const second = deployerProcess(platform);
  await second.run();
  expect(await refused(create("four"))).toBe(QUOTA);
  await second.end("SIGTERM");
  await platform.stop();
});

test("accounts of an older version have the default plan, also those that it still provisions", async () => {
  const database = await testDatabase(["deployer"]);
  const pool = createPool(database.url("deployer"));
  const older = await mkdtemp(join(tmpdir(), "berth-migrations-"));
  const folder = join(import.meta.dirname, "../migrations");
  try {
    for (const name of await readdir(folder))
      if (name < "0010") await cp(join(folder, name), join(older, name));
    await migrate(pool, older);
    const provision = (id: string) =>
      pool.query("insert into accounts (id, provisioned_at) values ($1, now())", [id]);
    await provision("acc_before");
    await migrate(pool, folder);
    await provision("acc_since");
    const { rows } = await pool.query("select id, tier from accounts order by id");
    expect(rows).toEqual([
      { id: "acc_before", tier: null },
      { id: "acc_since", tier: null },
    ]);
  } finally {
    await pool.end();
    await Promise.all([database.drop(), rm(older, { recursive: true })]);
  }
});
