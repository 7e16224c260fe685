import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../../kit/testing/refusal.ts";
import {
  archiveOf,
  createWebService,
  startDeployer,
  type TestDeployer,
  upload,
} from "../../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const webService = (more?: object) => createWebService(berth.port, more);

const page = (text: string) => archiveOf({ "index.html": `<h1>${text}</h1>` });

/** Everything the deployer holds of a service. */
async function heldOf(serviceId: string): Promise<unknown> {
  const service = await berth.pool.query("select * from services where id = $1", [serviceId]);
  const history = await berth.pool.query("select * from deployments where service_id = $1 order by version", [
    serviceId,
  ]);
  return [service.rows, history.rows];
}

test("a dry run of a first deploy says what is new and what dangles, and changes nothing", async () => {
  const { accountId, path, id, tryOut } = await webService({ config: { env: { MODE: "x" } } });
  const variables = [{ name: "GREETING", value: "hello-there" }];
  berth.variables.set(id, variables, [{ name: "DB", reason: "service_not_found" }]);
  const before = await heldOf(id);
  const found = await tryOut.deploy({ ...path, image: "shop/web:1" });
  expect(found).toMatchObject({
    eligible: false,
    refusal: { status: 422, code: "validation_failed", reasons: ["image_needs_cluster"] },
    diff: {
      image: { changed: true, to: "shop/web:1" },
      config: ["env.MODE", "port", "replicas", "size"],
      variables: { added: ["GREETING"], changed: [], removed: [] },
    },
    dangling: [{ name: "DB", reason: "service_not_found" }],
  });
  expect(found.diff?.image?.from).toBeUndefined();
  expect(await heldOf(id)).toEqual(before);
  const { rows } = await berth.pool.query("select id from accounts where id = $1", [accountId]);
  expect(rows).toEqual([]);
});

test("a dry run compares image, configuration and variables with the live release, by name alone", async () => {
  const { catalog, deployArchive, path, id, tryOut, until, untilService, ...web } = await webService();
  const secret = "only-the-app-may-know";
  const set = (value: string, more: { name: string; value: string }[]) =>
    berth.variables.set(id, [
      { name: "KEY", value, sensitive: true },
      { name: "SAME", value: "same" },
      ...more,
    ]);
  set(secret, [{ name: "OLD", value: "old" }]);
  const { archiveRef } = await deployArchive(path, await page("one"));
  await until(path, 1, "applied");
  await untilService(path, "running");
  set(`${secret}-2`, [{ name: "NEW", value: "new" }]);
  await catalog.updateService({ ...path, config: { minReadySeconds: 2, env: { COLOUR: "blue" } } });

  const again = await tryOut.deploy(path); // nothing given, nothing configured: what is live
  expect(again).toMatchObject({
    eligible: true,
    diff: {
      image: { changed: false, from: archiveRef, to: archiveRef },
      config: ["env.COLOUR", "minReadySeconds"],
      variables: { added: ["NEW"], changed: ["KEY"], removed: ["OLD"] },
    },
  });
  const next = await upload(web.deployments.createUpload(path), await page("two"));
  const second = await tryOut.deployFromArchive({ ...path, archiveRef: next });
  expect(second.diff?.image).toMatchObject({ changed: true, from: archiveRef, to: next });

  await deployArchive(path, await page("two"));
  await until(path, 2, "applied");
  const back = await tryOut.rollback({ ...path, version: 1 });
  expect(back).toMatchObject({
    eligible: true,
    diff: {
      image: { changed: true, to: archiveRef },
      config: ["env.COLOUR", "minReadySeconds"],
      variables: { added: [], changed: [], removed: [] },
    },
  });
  const { rows } = await berth.pool.query("select applied_variables from services where id = $1", [id]);
  expect(rows[0].applied_variables.length).toBeGreaterThan(0);
  for (const text of [secret, "KEY"]) expect(rows[0].applied_variables.includes(text)).toBe(false);
  expect(JSON.stringify([again, second, back].map((one) => one.diff))).not.toContain(secret);
  expect((await web.deployments.listDeployments(path)).data.map((one) => one.version)).toEqual([2, 1]);
});

test("a dry run shows the refusal that the real call answers", async () => {
  const { catalog, deployments, environment, path, tryOut } = await webService();
  const toRefusal = async (found: Promise<{ eligible: boolean; refusal?: object }>) => {
    const { eligible, refusal } = await found;
    const { status, code, reasons } = refusal as { status: number; code: string; reasons: string[] };
    return [eligible, status, code, ...reasons].join(" ");
  };
  expect(await toRefusal(tryOut.deploy(path))).toBe("false 422 validation_failed no_deployable_image");
  expect(await toRefusal(tryOut.rollback({ ...path, version: 4 }))).toBe("false 404 not_found");
  await deployments.deploy({ ...path, image: "shop/web:1" });
  expect(await toRefusal(tryOut.rollback({ ...path, version: 1 }))).toBe("false 409 version_never_live");
  const { archiveRef } = await deployments.createUpload(path);
  expect(await toRefusal(tryOut.deployFromArchive({ ...path, archiveRef }))).toBe(
    "false 422 validation_failed archive_not_uploaded",
  );
  await catalog.createService({ ...environment, name: "db", type: "postgres" });
  const addon = tryOut.deploy({ ...environment.at("db"), image: "a" });
  expect(await toRefusal(addon)).toBe("false 422 validation_failed not_deployable");
  await catalog.createService({ ...environment, name: "later", type: "web", staged: true });
  const staged = environment.at("later");
  expect(await toRefusal(tryOut.deploy({ ...staged, image: "a" }))).toBe(
    "false 422 validation_failed image_needs_cluster",
  );
  expect(await toRefusal(tryOut.rollback({ ...staged, version: 1 }))).toBe("false 409 service_staged");
  const ref = await upload(deployments.createUpload(staged), await page("later"));
  expect(await tryOut.deployFromArchive({ ...staged, archiveRef: ref })).toMatchObject({ eligible: true });
  expect(await catalog.getService(staged)).toMatchObject({ status: "staged" });

  expect(await refused(tryOut.deploy(environment.at("none")))).toBe("404 not_found");
  berth.variables.setAway(true);
  expect(await refused(tryOut.deploy({ ...path, image: "a" }))).toBe("503 unavailable");
  berth.variables.setAway(false);
});
