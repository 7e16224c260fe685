import { afterAll, beforeAll, expect, test } from "vitest";
import { DeploymentService } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { archiveOf, createWebService, startDeployer, type TestDeployer, upload } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const webService = (more?: object) => createWebService(berth.port, more);

const someArchive = () => archiveOf({ "index.html": "<h1>hello</h1>" });

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

test("a staged service acknowledges deploys, and runs the last of them once it is applied", async () => {
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
