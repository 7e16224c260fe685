import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import {
  AccountCreatedSchema,
  AccountDeletedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  FREE_PLAN,
  startDeployer,
  type TestDeployer,
} from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer(FREE_PLAN);
});
afterAll(() => berth?.stop());

const webService = () => createWebService(berth.port);

const provisionedAt = async (accountId: string) => {
  const text = "select provisioned_at::text as at from accounts where id = $1";
  return (await berth.pool.query<{ at: string | null }>(text, [accountId])).rows[0]?.at;
};

const changeTier = (accountId: string, tier: string, revision: bigint) =>
  berth.variables.publish(TierChangedSchema, accountId, { accountId, tier, revision });

const MIB = 1024 ** 2;

test("a new account is provisioned by itself, with an event", async () => {
  const accountId = newId("acc");
  await berth.variables.publish(AccountCreatedSchema, accountId, { accountId, handle: "shop" });
  await eventually("it is provisioned", () => provisionedAt(accountId));
  await eventually("the event arrived", async () =>
    (await berth.eventsOf(accountId)).includes("AccountProvisioned"),
  );
});

test("an account whose AccountCreated has not arrived can deploy, and is provisioned once", async () => {
  const { accountId, deployments, path } = await webService();
  expect(await provisionedAt(accountId)).toBeUndefined();
  await deployments.deploy({ ...path, image: "shop/web:1" });
  const at = await provisionedAt(accountId);
  expect(at).toBeTruthy();
  await berth.variables.publish(AccountCreatedSchema, accountId, { accountId, handle: "shop" });
  const later = newId("acc"); // events are handled in order
  await berth.variables.publish(AccountCreatedSchema, later, { accountId: later, handle: "later" });
  await eventually("the later event arrived", () => provisionedAt(later));
  expect(await provisionedAt(accountId)).toBe(at);
});

test("while an account is being provisioned a deployment is refused, as a dry run says; both work afterwards", async () => {
  const { accountId, deployments, path, tryOut } = await webService();
  const other = await berth.pool.connect(); // another process that provisions it
  await other.query("begin");
  await other.query("insert into accounts (id, provisioned_at) values ($1, now())", [accountId]);
  const call = deployments.deploy({ ...path, image: "shop/web:1" });
  expect(await refused(call)).toBe("412 account_not_provisioned");
  expect(await tryOut.deploy({ ...path, image: "shop/web:1" })).toMatchObject({
    eligible: false,
    refusal: { status: 412, code: "account_not_provisioned", reasons: [] },
    diff: { image: { changed: true, to: "shop/web:1" } },
  });
  expect((await deployments.listDeployments(path)).data).toEqual([]);
  await other.query("commit");
  other.release();
  // An image needs a cluster.
  expect((await tryOut.deploy({ ...path, image: "shop/web:1" })).refusal?.status).toBe(422);
  expect((await deployments.deploy({ ...path, image: "shop/web:1" })).version).toBe(1);
});

test("a plan's upload cap and history depth hold from the moment that billing reports it", async () => {
  const { accountId, deployments, path, id } = await webService();
  await berth.pool.query(
    `insert into deployments (id, service_id, version, status, config, source, image, artifact, healthy_at)
     select 'dep_' || md5($1 || n), $1, n, 'applied', '{"size":"nano"}', '{}', 'web:' || n, 'image:web:' || n, now()
     from generate_series(1, 21) n`,
    [id],
  );
  await berth.pool.query("update services set next_version = 22, live_version = 21 where id = $1", [id]);
  const upload = (sizeBytes: number) => refused(deployments.createUpload({ ...path, sizeBytes }));
  const rollback = (version: number) => refused(deployments.rollback({ ...path, version }));
  expect(await upload(300 * MIB)).toBe("422 validation_failed archive_too_large");
  expect(await rollback(16)).toBe("403 quota_exceeded");
  await changeTier(accountId, "pro", 1n);
  await eventually("the cap is raised", () =>
    deployments.createUpload({ ...path, sizeBytes: 300 * MIB }).then(
      () => true,
      () => false,
    ),
  );
  expect(await upload(501 * MIB)).toBe("422 validation_failed archive_too_large");
  expect(await rollback(1)).toBe("403 quota_exceeded");
  expect((await deployments.rollback({ ...path, version: 2 })).image).toBe("web:2");
  await changeTier(accountId, "free", 2n);
  await eventually("the cap is lowered", () =>
    upload(300 * MIB).then(
      (said) => said === "422 validation_failed archive_too_large",
      () => false,
    ),
  );
  expect(await rollback(3)).toBe("403 quota_exceeded");
});

test("a build takes 15 minutes at most on the free plan and 30 on a paid one", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-accounts-"));
  const go = join(folder, "go");
  const manifest = { name: "slow", scripts: { build: "sh build.sh", start: "node server.js" } };
  const archive = await archiveOf({
    "package.json": JSON.stringify(manifest),
    "build.sh": `while [ ! -e ${go} ]; do sleep 0.05; done`,
    "server.js": "require('node:http').createServer((q, s) => s.end()).listen(process.env.PORT)",
  });
  async function builtFor(minutes: number) {
    const web = await webService();
    await web.deployArchive(web.path, archive);
    await web.until(web.path, 1, "building");
    const late = async () => {
      await berth.pool.query(
        `with late as (update deployments set build_started_at = now() - make_interval(mins => $2) where service_id = $1)
         update work set next_at = now() where service_id = $1`,
        [web.id, minutes],
      );
    };
    return { ...web, late };
  }
  const free = await builtFor(20);
  await free.late();
  const failed = await free.until(free.path, 1, "failed");
  expect(failed.errors).toMatchObject([{ stage: "build", code: "build_timeout" }]);

  const paid = await builtFor(20);
  await changeTier(paid.accountId, "team", 1n);
  await eventually("the plan is known", async () => {
    const { rows } = await berth.pool.query("select tier from accounts where id = $1", [paid.accountId]);
    return rows[0]?.tier === "team";
  });
  await paid.late();
  await writeFile(go, "");
  expect((await paid.until(paid.path, 1, "applied", "failed")).status).toBe("applied");
  await rm(folder, { recursive: true });
});

test("in a deleted account nothing runs and nothing is made, in whatever order and however often the event arrives", async () => {
  const { accountId, catalog } = await webService();
  const event = { accountId, byUserId: newId("usr"), at: timestampFromMs(1_000) };
  const projects = async () => (await catalog.listProjects({ accountId })).data.length;
  expect(await projects()).toBe(1);
  for (let time = 0; time < 2; time++) await berth.variables.publish(AccountDeletedSchema, accountId, event);
  await berth.variables.publish(AccountCreatedSchema, accountId, { accountId, handle: "late" });
  await eventually("the project is gone", async () => (await projects()) === 0);
  expect(await refused(catalog.createProject({ accountId, name: "late" }))).toBe("403 forbidden");
  const names = await berth.eventsOf(accountId);
  expect(names.filter((name) => name === "ProjectDeleted")).toHaveLength(1);

  const unheard = newId("acc");
  await berth.variables.publish(AccountDeletedSchema, unheard, { ...event, accountId: unheard });
  const deleted = "select from accounts where id = $1 and deleted_at is not null";
  await eventually("it is known", async () => (await berth.pool.query(deleted, [unheard])).rowCount === 1);
  const { catalog: stranger } = actAs(berth.port, unheard);
  expect(await refused(stranger.createProject({ accountId: unheard, name: "p" }))).toBe("403 forbidden");
});
