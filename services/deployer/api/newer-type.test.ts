import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { addonAdmin } from "../addons/testing.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
  // As a newer version widens it.
  await berth.pool.query("alter table services drop constraint services_type_check");
});
afterAll(() => berth?.stop());

test("a service of a type that only a newer version knows is shown, and neither changed nor taken for an addon", async () => {
  const { catalog, deployments, environment } = await createWebService(berth.port);
  const [path, staged] = [environment.at("own"), environment.at("staged")];
  const { id } = await catalog.createService({ ...environment, name: "own", type: "worker" });
  const made = { ...environment, name: "staged", type: "worker", staged: true };
  const { id: stagedId } = await catalog.createService(made);
  await berth.pool.query("update services set type = 'function' where id = any($1)", [[id, stagedId]]);
  const read = async () => {
    const text =
      "select type, source, config, staged, deleting_at, addon_state, addon_secret from services where id = any($1) order by id";
    return (await berth.pool.query(text, [[id, stagedId]])).rows;
  };
  const before = await read();
  const { data } = await catalog.listServices({ ...environment, limit: 10 });
  expect(data.map(({ type }) => type).sort()).toEqual(["function", "function", "web"]);
  const shown = await catalog.getService(path);
  expect([shown.type, shown.status, shown.capabilities]).toEqual(["function", "pending", undefined]);
  const calls = [
    () => catalog.updateService({ ...path, config: { size: "small" } }),
    () => catalog.updateService({ ...path, config: { replicas: 2, version: "18" } }),
    () => catalog.updateService({ ...staged, unsetEnv: ["A"] }),
    () => catalog.deleteService({ ...path, confirmImpact: true }),
    () => catalog.restartService(path),
    () => catalog.rotateCredentials(path),
    () => catalog.applyEnvironment(environment),
    () => deployments.deploy({ ...path, image: "shop/web:1" }),
  ];
  for (const call of calls) expect(await refused(call())).toBe("503 unavailable");
  // Its turn comes, and leaves it to the next process.
  await berth.pool.query("update work set next_at = now() where service_id = $1", [id]);
  await eventually("it had its turn", async () => {
    const text = "select from work where service_id = $1 and lease_owner is null and next_at > now()";
    return (await berth.pool.query(text, [id])).rowCount === 1;
  });
  expect(await read()).toEqual(before);
});
