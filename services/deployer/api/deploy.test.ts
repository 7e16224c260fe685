import { Code, type ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DeploymentService } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { newId } from "../../kit/ids.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import {
  actAs,
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
  untilWork,
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

test("a version says who made it, by which token, also a rollback; one of before has nobody", async () => {
  const { accountId, path, until, id, deployments } = await webService();
  const as = (caller: Partial<Caller>) =>
    clientAs(DeploymentService, berth.port, { accountId, role: "editor", ...caller });
  await as({ id: "usr_ada", tokenId: "tok_1" }).deploy({ ...path, image: "shop/web:1" });
  await until(path, 1, "failed");
  const machine = as({ kind: "machine", id: "usr_eve", tokenId: "grant_1" });
  const { result } = await machine.deploy({ ...path, image: "shop/web:2" });
  expect(result.value).toMatchObject({ createdBy: { kind: "machine", id: "usr_eve", tokenId: "grant_1" } });
  await until(path, 2, "failed");
  // As if version 1 had been live, by a process that knows no creator.
  await berth.pool.query(
    "update deployments set status = 'applied', healthy_at = now(), created_by = null where service_id = $1 and version = 1",
    [id],
  );
  await as({ id: "usr_bob" }).rollback({ ...path, version: 1 });
  const { data } = await deployments.listDeployments(path);
  expect(data.map(({ version, createdBy }) => [version, createdBy?.id, createdBy?.tokenId])).toEqual([
    [3, "usr_bob", undefined],
    [2, "usr_eve", "grant_1"],
    [1, undefined, undefined],
  ]);
  const one = await deployments.getDeployment({ ...path, version: 2 });
  expect(one.createdBy).toEqual(data[1]!.createdBy);
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
  // Others have taken the slots for builds, and cannot begin without their variables.
  const others = [await webService(), await webService()];
  for (const other of others) {
    await other.deployArchive(other.path, await someArchive());
    await other.until(other.path, 1, "building");
  }
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
  const { catalog, deployments, id, path } = await webService();
  await untilWork(berth.pool, id, "done");
  const open = berth.variables.hold();
  await deployments.deploy({ ...path, image: "shop/web:1" });
  await untilWork(berth.pool, id, "begun");
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
