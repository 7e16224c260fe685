import { rename } from "node:fs/promises";
import { join } from "node:path";
import { Code, type ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DeploymentService } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import type { ServicePath } from "../catalog/services-sql.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
  upload,
} from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const webService = (more?: object) => createWebService(berth.port, more);

const someArchive = () => archiveOf({ "index.html": "<h1>hello</h1>" });

test("an image that this machine cannot run fails at apply and says that a cluster is needed", async () => {
  const { deployments, path, until, untilService } = await webService();
  const accepted = await deployments.deploy({ ...path, image: "registry.example.com/shop/web:1" });
  expect(accepted).toMatchObject({
    version: 1,
    status: "queued",
    image: "registry.example.com/shop/web:1",
    errors: [],
  });
  expect([accepted.buildId, accepted.archiveRef, accepted.finishedAt]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  const failed = await until(path, 1, "failed");
  expect(failed.errors).toMatchObject([{ stage: "apply", code: "image_needs_cluster" }]);
  expect(failed.errors[0]!.message).toMatch(/cluster/);
  expect(failed.finishedAt).toBeDefined();
  expect((await untilService(path, "failed")).statusMessage).toBe(failed.errors[0]!.message);
  expect(await refused(deployments.getBuildLogs({ ...path, version: 1 }))).toBe("404 not_found");
});

test("a deploy takes the given image, else the configured one, and is refused where there is none", async () => {
  const { catalog, deployments, path } = await webService();
  expect(await refused(deployments.deploy(path))).toBe("422 validation_failed no_deployable_image");
  await catalog.updateService({ ...path, source: { image: "shop/web:1" } });
  expect((await deployments.deploy(path)).image).toBe("shop/web:1");
  expect((await deployments.deploy({ ...path, image: "shop/web:2" })).image).toBe("shop/web:2");
});

test("what is no image reference is neither deployed nor stored, and the dry run says the same", async () => {
  const { catalog, deployments, path, tryOut } = await webService();
  for (const image of ["shop/web:1\0", "shop web", "shop/Web", "web:", "https://images.example/web"]) {
    const bad = "422 validation_failed invalid_image";
    expect([image, await refused(deployments.deploy({ ...path, image }))]).toEqual([image, bad]);
    expect([image, await refused(catalog.updateService({ ...path, source: { image } }))]).toEqual([
      image,
      bad,
    ]);
    const { eligible, refusal } = await tryOut.deploy({ ...path, image });
    expect([eligible, refusal?.status, refusal?.reasons]).toEqual([false, 422, ["invalid_image"]]);
  }
  expect((await deployments.listDeployments(path)).data).toEqual([]);
});

test("versions have no gap however many deploys come at once, and all but the newest are superseded", async () => {
  const open = berth.variables.hold(); // nothing is applied meanwhile
  const { deployments, path, until } = await webService();
  const accepted = await Promise.all(
    Array.from({ length: 12 }, (_, n) => deployments.deploy({ ...path, image: `shop/web:${n}` })),
  );
  const versions = accepted.map((one) => one.version).sort((one, other) => one - other);
  expect(versions).toEqual(Array.from({ length: 12 }, (_, n) => n + 1));
  const { data } = await deployments.listDeployments({ ...path, limit: 100 });
  expect(data.map((one) => one.version)).toEqual(versions.toReversed());
  expect(data.slice(1).every((one) => one.status === "superseded" && one.finishedAt)).toBe(true);
  expect(data[0]).toMatchObject({ version: 12, status: "queued" });
  open();
  await until(path, 12, "failed");
});

test("history is paged newest first", async () => {
  const { deployments, path } = await webService();
  for (const n of [1, 2, 3]) await deployments.deploy({ ...path, image: `shop/web:${n}` });
  const first = await deployments.listDeployments({ ...path, limit: 2 });
  expect([first.data.map((one) => one.version), first.page!.hasMore]).toEqual([[3, 2], true]);
  const rest = await deployments.listDeployments({ ...path, cursor: first.page!.nextCursor });
  expect([rest.data.map((one) => one.version), rest.page!.hasMore]).toEqual([[1], false]);
  expect(await refused(deployments.listDeployments({ ...path, limit: 101 }))).toBe(
    "422 validation_failed out_of_range",
  );
  expect(await refused(deployments.listDeployments({ ...path, cursor: "x" }))).toBe("400 malformed_request");
  expect(await refused(deployments.getDeployment({ ...path, version: 4 }))).toBe("404 not_found");
  expect(await refused(deployments.getBuildLogs({ ...path, version: 4 }))).toBe("404 not_found");
});

test("an upload target is told, and an archive over the cap is refused at once", async () => {
  const { deployments, path } = await webService();
  const target = await deployments.createUpload({ ...path, sizeBytes: 1_000 });
  expect(target).toMatchObject({ method: "PUT", contentType: "application/gzip", expiresInSeconds: 900 });
  expect(target.uploadUrl.startsWith(berth.env.PUBLIC_ORIGIN!)).toBe(true);
  expect(target.archiveRef).toMatch(/^arc_/);
  const sizeBytes = 250 * 1024 ** 2 + 1;
  expect(await refused(deployments.createUpload({ ...path, sizeBytes }))).toBe(
    "422 validation_failed archive_too_large",
  );
  expect(await refused(deployments.createUpload({ ...path, sizeBytes: -1 }))).toBe(
    "422 validation_failed out_of_range",
  );
});

test("an archive that is not there, not this service's, or forged, is refused", async () => {
  const one = await webService();
  const two = await webService();
  const target = await one.deployments.createUpload(one.path);
  const deploy = (archiveRef: string, of = one) =>
    refused(of.deployments.deployFromArchive({ ...of.path, archiveRef }));
  expect(await deploy(target.archiveRef)).toBe("422 validation_failed archive_not_uploaded");
  const ref = await upload(one.deployments.createUpload(one.path), await someArchive());
  expect(await deploy(ref, two)).toBe("422 validation_failed archive_ref_mismatch");
  expect(await deploy("arc_nonsense")).toBe("422 validation_failed archive_ref_mismatch");
  const forged = ref.slice(0, -1) + (ref.endsWith("A") ? "Q" : "A");
  expect(await deploy(forged)).toBe("422 validation_failed archive_ref_mismatch");
  expect(await deploy("")).toBe("422 validation_failed required");
});

test("a staged service acknowledges an archive, and deploys it when the environment is applied", async () => {
  const { catalog, deployments, environment, path, id, until } = await webService({ staged: true });
  const archiveRef = await upload(deployments.createUpload(path), await someArchive());
  const answer = await deployments.deployFromArchive({ ...path, archiveRef });
  expect(answer.result).toMatchObject({
    case: "acknowledgement",
    value: { staged: true, reason: "service_not_provisioned" },
  });
  expect((await deployments.listDeployments(path)).data).toEqual([]);
  expect(await refused(deployments.rollback({ ...path, version: 1 }))).toBe("409 service_staged");
  expect(await catalog.applyEnvironment(environment)).toMatchObject({ applied: [id] });
  expect((await until(path, 1, "queued", "building", "built", "applied")).archiveRef).toBe(archiveRef);
});

test("a staged service acknowledges what it is to deploy: the last order counts once it is applied", async () => {
  const source = { image: "shop/web:configured" };
  const { accountId, catalog, environment, tryOut } = await webService();
  const client = clientAs(DeploymentService, berth.port, { accountId, role: "editor" });
  const acknowledged = {
    case: "acknowledgement",
    value: { staged: true, reason: "service_not_provisioned" },
  };
  type Order = (path: ServicePath) => Promise<unknown>;
  const configured: Order = async (path) => (await client.deploy(path)).result;
  const given: Order = async (path) => (await client.deploy({ ...path, image: "shop/web:2" })).result;
  const archive: Order = async (path) => {
    const archiveRef = await upload(client.createUpload(path), await someArchive());
    return (await client.deployFromArchive({ ...path, archiveRef })).result;
  };
  const anyArchive = { archiveRef: expect.stringMatching(/^arc_/) };
  const cases: [string, Order[], object][] = [
    ["none", [], { image: "shop/web:configured" }],
    ["given", [archive, given], { image: "shop/web:2" }],
    ["archive", [given, archive], anyArchive],
    ["configured", [given, archive, configured], { image: "shop/web:configured" }],
  ];
  for (const [name, orders] of cases) {
    const path = environment.at(name);
    await catalog.createService({ ...environment, name, type: "web", staged: true, source });
    for (const order of orders) expect(await order(path)).toMatchObject(acknowledged);
    expect((await tryOut.deploy(path)).refusal?.reasons).toEqual(["image_needs_cluster"]);
    expect(await refused(client.deploy({ ...path, image: "no image" }))).toBe(
      "422 validation_failed invalid_image",
    );
    expect(await refused(client.rollback({ ...path, version: 1 }))).toBe("409 service_staged");
    expect((await client.listDeployments(path)).data).toEqual([]);
    expect((await catalog.getService(path)).status).toBe("staged");
  }
  await catalog.applyEnvironment(environment);
  for (const [name, , expected] of cases)
    expect((await client.listDeployments(environment.at(name))).data).toMatchObject([
      { version: 1, ...expected },
    ]);
});

test("an archive that was deployed takes no other bytes: neither by its URL nor under the build", async () => {
  const { deployments, id, path, until } = await webService();
  const target = await deployments.createUpload(path);
  const archiveRef = await upload(Promise.resolve(target), await someArchive());
  const open = berth.variables.hold(); // the build does not begin
  await deployments.deployFromArchive({ ...path, archiveRef });
  const body = new Uint8Array(await archiveOf({ "index.html": "<h1>other</h1>" }));
  const put = await fetch(target.uploadUrl, {
    method: "PUT",
    headers: { "content-type": target.contentType },
    body,
  });
  expect([put.status, await put.json()]).toMatchObject([409, { error: { code: "archive_deployed" } }]);
  // As a store does that cannot refuse it.
  const other = await upload(deployments.createUpload(path), Buffer.from(body));
  const fileOf = (ref: string) =>
    join(berth.dataDir, "store/objects", `archives+${id}+${ref.split("_").slice(0, 2).join("_")}`);
  await rename(fileOf(other), fileOf(archiveRef));
  open();
  expect((await until(path, 1, "failed")).errors).toMatchObject([
    { stage: "source", code: "archive_changed" },
  ]);
});

test("a variable named PORT is left out with a warning, and the dry run says so", async () => {
  const { deployments, deployArchive, id, path, tryOut, until } = await webService();
  berth.variables.set(id, [
    { name: "PORT", value: "1" },
    { name: "GREETING", value: "hello" },
  ]);
  await deployArchive(path, await someArchive());
  const applied = await until(path, 1, "applied");
  expect(applied.warnings).toMatchObject([{ stage: "resolve", code: "port_reserved" }]);
  expect(applied.warnings[0]!.message).toMatch(/PORT/);
  await eventually("it answers all the same", async () => {
    const { healthyAt } = await deployments.getDeployment({ ...path, version: 1 });
    return healthyAt;
  });
  const tried = await tryOut.deploy({ ...path, image: "shop/web:1" });
  expect(tried.dangling).toMatchObject([{ name: "PORT", reason: "port_reserved" }]);
});

test("a deployment that could not begin or apply in time fails at its stage", async () => {
  berth.variables.setAway(true);
  const { deployments, path, until, id } = await webService();
  const backdate = (column: string) =>
    berth.pool.query(
      `with late as (update deployments set ${column} = now() - interval '1 hour'
         where service_id = $1 and status = 'queued')
       update work set next_at = now() where service_id = $1`,
      [id],
    );
  const archiveRef = await upload(deployments.createUpload(path), await someArchive());
  await deployments.deployFromArchive({ ...path, archiveRef });
  await backdate("created_at");
  const queued = await until(path, 1, "failed");
  expect(queued.errors).toMatchObject([{ stage: "queue", code: "queue_deadline_exceeded" }]);

  await deployments.deploy({ ...path, image: "shop/web:1" });
  const waiting = await eventually("it says what it waits for", async () => {
    const found = await deployments.getDeployment({ ...path, version: 2 });
    return found.warnings.length > 0 && found;
  });
  expect(waiting).toMatchObject({
    status: "queued",
    warnings: [{ stage: "resolve", code: "variables_unavailable" }],
  });
  await backdate("apply_started_at");
  const applying = await until(path, 2, "failed");
  expect(applying.errors).toMatchObject([{ stage: "apply", code: "apply_deadline_exceeded" }]);
  berth.variables.setAway(false);
});

test("calls without a member's role are refused", async () => {
  const { accountId, path } = await webService();
  const stranger = actAs(berth.port, newId("acc"));
  const call = stranger.deployments.deploy({ ...path, image: "a" });
  expect(await refused(call)).toBe("403 forbidden");
  const error = await actAs(berth.port, accountId, "reader")
    .deployments.createUpload(path)
    .catch((e) => e);
  expect((error as ConnectError).code).toBe(Code.PermissionDenied);
});

test("a deleting service takes no deployment", async () => {
  const { catalog, deployments, path } = await webService();
  const open = berth.variables.hold();
  const before = berth.variables.asked();
  await deployments.deploy({ ...path, image: "shop/web:1" });
  await eventually("the apply has begun", async () => berth.variables.asked() > before);
  await catalog.deleteService(path);
  const { status } = await catalog.getService(path);
  expect(status).toBe("deleting");
  expect(await refused(deployments.deploy({ ...path, image: "a" }))).toBe("409 service_deleting");
  expect(await refused(deployments.createUpload(path))).toBe("409 service_deleting");
  expect(await refused(catalog.updateService({ ...path, config: { replicas: 2 } }))).toBe(
    "409 service_deleting",
  );
  await catalog.deleteService(path); // again is no error
  open();
  await eventually("the service is gone", () =>
    refused(catalog.getService(path)).then(
      (said) => said === "404 not_found",
      () => false,
    ),
  );
});
