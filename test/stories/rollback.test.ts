import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { archiveOf, type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf as packed } from "../support/archives.ts";
import { refusal } from "../support/door.ts";
import { openPlatform, type Platform } from "../support/world.ts";

/** A version counts as healthy soon, also where it takes longer by default. */
const config = { minReadySeconds: 1 };

let world: Platform;
/** A service with two versions that were live: the node app, then the static one. */
let S: string;

beforeAll(async () => {
  world = await openPlatform();
  const { E, S: service } = await world.environment();
  S = service("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web", config });
  for (const app of ["node", "static"]) {
    const { version } = await deployArchive(world, S, await archiveOf(app));
    await settled(world, S, version);
  }
});

afterAll(() => world.stop());

type Service = { status: string; url: string; liveVersion: number };
type DryRun = { eligible: boolean; refusal?: { code: string }; diff: object; dangling: object[] };

test("what cannot be rolled back is refused by code, and a dry run tells the same with 200", async () => {
  const rollback = async (body: object, token?: string) =>
    refusal(await world.call("POST", `${S}/rollback`, body, { token }));
  expect(await rollback({ version: 2 })).toBe("409 version_is_current");
  expect(await rollback({ version: 3 })).toBe("404 not_found");
  expect(await rollback({})).toBe("422 required");
  expect(await rollback({ version: "1" })).toBe("422 invalid_type");
  expect(await rollback({ version: 1, force: true })).toBe("422 unknown_field");
  const reading = { name: "reading", roleCap: "reader" };
  const reader = await world.must<{ token: string }>("POST", "/me/tokens", reading);
  expect(await rollback({ version: 1, dryRun: true }, reader.token)).toBe("403 forbidden");
  await deployArchive(world, S, await packed([{ name: "notes.txt", content: "nothing that runs" }]));
  expect(await settled(world, S, 3)).toMatchObject({ status: "failed" });
  expect(await rollback({ version: 3 })).toBe("409 version_never_live");
  const tried = await world.call<DryRun>("POST", `${S}/rollback`, { version: 3, dryRun: true });
  expect([tried.status, tried.body.eligible, tried.body.refusal?.code]).toEqual([
    200,
    false,
    "version_never_live",
  ]);
  const deploy = await world.call<DryRun>("POST", `${S}/deploy`, { image: "shop/web:1", dryRun: true });
  const onCluster = inject("platform") !== undefined; // one machine runs no images, and says so
  expect([deploy.status, deploy.body.eligible]).toEqual([200, onCluster]);
  const archiveRef = "arc_not-of-this-service";
  const archive = await world.call<DryRun>("POST", `${S}/deploy-from-archive`, { archiveRef, dryRun: true });
  expect([archive.status, archive.body.eligible]).toEqual([200, false]);
});

test("a user tries a rollback out, rolls back, and opens the version of before with the variables of now", async () => {
  const { url } = await world.must<Service>("GET", S);
  const versions = async () =>
    (await world.must<{ data: Deployment[] }>("GET", `${S}/deployments`)).data.map((one) => one.version);
  const before = await versions();
  const next = before[0]! + 1;
  expect((await open(url)).body).toContain("<");
  await world.must("POST", `${S}/variables`, { name: "GREETING", value: "not there at first" });

  const tried = await world.call<DryRun>("POST", `${S}/rollback`, { version: 1, dryRun: true });
  expect(tried.status).toBe(200);
  expect(tried.body).toMatchObject({ eligible: true, diff: { image: { changed: true } }, dangling: [] });
  expect(tried.body).not.toHaveProperty("refusal");
  expect(JSON.stringify(tried.body)).not.toContain("not there at first");
  expect(await versions()).toEqual(before);

  const headers = { "idempotency-key": randomBytes(8).toString("hex") };
  const accepted = await world.call<Deployment>("POST", `${S}/rollback`, { version: 1 }, { headers });
  expect([accepted.status, accepted.body.version, accepted.body.status]).toEqual([202, next, "queued"]);
  expect(accepted.body).toMatchObject({ builtVersion: 1 });
  expect(accepted.body).not.toHaveProperty("archiveRef");
  expect(accepted.body).not.toHaveProperty("buildId");
  const again = await world.call<Deployment>("POST", `${S}/rollback`, { version: 1 }, { headers });
  expect([again.status, again.body.version]).toEqual([202, next]);
  expect(await settled(world, S, next)).toMatchObject({ status: "applied", errors: [] });
  expect((await open(url)).body).toContain("not there at first");
  const log = await world.call("GET", `${S}/deployments/${next}/build-logs`);
  expect([log.status, log.body]).toMatchObject([404, { error: { code: "not_found", builtVersion: 1 } }]);
  // A deploy of what is live runs the same build.
  const redeployed = await world.call<Deployment>("POST", `${S}/deploy`, {});
  expect(redeployed.body).toMatchObject({ version: next + 1, builtVersion: 1 });
  expect(redeployed.body).not.toHaveProperty("archiveRef");
  await settled(world, S, next + 1);
  expect(await world.must("GET", S)).toMatchObject({ status: "running", liveVersion: next + 1 });

  const audited = await eventually("it is audited", async () => {
    type Audit = { data: { metadata: Record<string, string> }[] };
    const { data } = await world.must<Audit>("GET", `${world.A}/audit-events?action=deployment.create`);
    return data.find((entry) => entry.metadata.restoredVersion === "1");
  });
  expect(audited.metadata).toMatchObject({ service: "web", version: String(next) });
});

test("an account just created stages a service, uploads for it, and applies: all at once", async () => {
  const handle = `team-${randomBytes(4).toString("hex")}`;
  const { id: accountId } = await world.must<{ id: string }>("POST", "/accounts", { handle });
  const { id: projectId } = await world.must<{ id: string }>("POST", `/accounts/${accountId}/projects`, {
    name: "shop",
  });
  const P = `/accounts/${accountId}/projects/${projectId}`;
  const { id } = await world.must<{ id: string }>("POST", `${P}/environments`, { name: "production" });
  const E = `${P}/environments/${id}`;
  await world.must("POST", `${E}/services`, { name: "web", type: "web", staged: true, config });
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres", staged: true });
  const S = `${E}/services/web`;
  const acknowledged = await deployArchive(world, S, await archiveOf("static"));
  expect(acknowledged).toEqual({ staged: true, reason: "service_not_provisioned" });
  expect(await world.must("GET", `${S}/deployments`)).toMatchObject({ data: [] });

  const applied = await world.call<{ applied: string[] }>("POST", `${E}/apply`, {});
  expect([applied.status, applied.body.applied.length]).toEqual([202, 2]);
  expect(await settled(world, S, 1)).toMatchObject({ status: "applied", errors: [] });
  const { url, status } = await world.must<Service>("GET", S);
  expect([status, (await open(url)).status]).toEqual(["running", 200]);
  await eventually("the addon is there", async () => {
    const addon = await world.must<Service>("GET", `${E}/services/db`);
    return addon.status === "running";
  });
  const nothing = await world.call("POST", `${E}/apply`, {});
  expect([nothing.status, nothing.body]).toEqual([202, { applied: [] }]);
});
