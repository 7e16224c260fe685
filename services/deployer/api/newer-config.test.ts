import { afterAll, beforeAll, expect, test } from "vitest";
import { addonAdmin } from "../addons/testing.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
});
afterAll(() => berth?.stop());

test.each(["web", "worker", "cron", "postgres", "redis"])(
  "a change of a %s service keeps what a newer version has stored in its configuration",
  async (type) => {
    const { catalog, environment } = await createWebService(berth.port);
    const path = environment.at("own");
    const { id } = await catalog.createService({ ...environment, name: "own", type, staged: true });
    const ofNewer = { newer: { mode: "strict", least: 2 }, newerSwitch: false };
    await berth.pool.query("update services set config = config || $2 where id = $1", [id, ofNewer]);
    const { config } = await catalog.updateService({ ...path, config: { size: "small" } });
    expect(config).toMatchObject({ size: "small" });
    const stored = await berth.pool.query("select config from services where id = $1", [id]);
    expect(stored.rows[0].config).toMatchObject({ ...ofNewer, size: "small" });
    expect((await catalog.getService(path)).config).toMatchObject({ size: "small" });
  },
);

test("a change removes what this version knows, beside what it does not", async () => {
  const { catalog, environment } = await createWebService(berth.port);
  const config = { command: "node server.js", healthCheckPath: "/health", env: { A: "1", B: "2" } };
  const made = { ...environment, name: "own", type: "web", staged: true, config };
  const { id } = await catalog.createService(made);
  await berth.pool.query(`update services set config = config || '{"newer": 1}' where id = $1`, [id]);
  const change = { config: { command: "", env: { C: "3" } }, unsetEnv: ["A"] };
  await catalog.updateService({ ...environment.at("own"), ...change });
  const { rows } = await berth.pool.query("select config from services where id = $1", [id]);
  expect(rows[0].config).toMatchObject({ newer: 1, healthCheckPath: "/health", env: { B: "2", C: "3" } });
  expect(rows[0].config).not.toHaveProperty("command");
});
