import { afterAll, beforeAll, expect, test } from "vitest";
import { DomainService } from "../../../proto/gen/berth/deployer/v1/domains_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs } from "../../kit/testing/testing.ts";
import { archiveOf, createWebService, startDeployer, type TestDeployer, visit } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const APP = {
  "package.json": JSON.stringify({ name: "app", scripts: { start: "node app.js" } }),
  "app.js": `require("http").createServer((req, res) => res.end("inner")).listen(process.env.PORT)`,
};

test("a service loses its address with the deploy that makes it private, stays reachable here, and gets it back", async () => {
  const made = await createWebService(berth.port, { config: { minReadySeconds: 0 } });
  const { path, catalog } = made;
  const get = () => catalog.getService(path);
  const deploy = async () => {
    const { version } = await made.deployArchive(path, await archiveOf(APP));
    await made.until(path, version, "applied");
    await made.untilService(path, "running");
  };
  await deploy();
  const { url } = await get();
  expect(await visit(url!)).toMatchObject({ status: 200, text: "inner" });

  const changed = await catalog.updateService({ ...path, config: { public: false } });
  expect(changed).toMatchObject({ url, pendingChanges: true, config: { public: false } });
  await deploy();
  const hidden = await get();
  expect(hidden).toMatchObject({ status: "running", pendingChanges: false });
  expect(hidden.url).toBeUndefined();
  expect(await visit(url!)).toMatchObject({ status: 200, text: "inner" });

  await catalog.updateService({ ...path, config: { public: true } });
  await deploy();
  expect(await get()).toMatchObject({ url, config: { public: true } });
});

test("a service with domains does not become private, neither by its configuration nor by a rollback", async () => {
  const made = await createWebService(berth.port, { config: { minReadySeconds: 0, public: false } });
  const { path, catalog, accountId, deployments } = made;
  const domains = clientAs(DomainService, berth.port, { accountId, role: "owner" });
  for (const config of [{ public: false }, { public: true }]) {
    await catalog.updateService({ ...path, config });
    const { version } = await made.deployArchive(path, await archiveOf(APP));
    await made.until(path, version, "applied");
    await made.untilService(path, "running");
  }
  const { id: domainId } = await domains.createDomain({ ...path, host: "private.example.com" });
  const hide = () => catalog.updateService({ ...path, config: { public: false } });
  expect(await refused(hide())).toBe("409 service_has_domains");
  expect(await refused(deployments.rollback({ ...path, version: 1 }))).toBe("409 service_has_domains");
  expect((await catalog.updateService({ ...path, config: { public: true } })).config?.public).toBe(true);
  await domains.deleteDomain({ ...path, domainId });
  expect((await hide()).config?.public).toBe(false);
  expect(await refused(domains.createDomain({ ...path, host: "private.example.com" }))).toContain(
    "not_public",
  );
});
