import { afterAll, beforeAll, expect, test } from "vitest";
import type { EnvironmentEvent } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startLocalEngine } from "../engine/local.ts";
import type { Scale } from "../runtime/port.ts";
import { archiveOf, createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

const app = {
  "package.json": JSON.stringify({ name: "app", scripts: { start: "node server.js" } }),
  "server.js": "require('node:http').createServer((q, r) => r.end()).listen(process.env.PORT)",
};

let berth: TestDeployer;
let scaling: TestDeployer;
const scales: Scale[] = [];
beforeAll(async () => {
  berth = await startDeployer();
  // As on a cluster, as far as the deployer's own part goes: what decides the number is the cluster's.
  scaling = await startDeployer({ PLAN_QUOTAS: "on", DEFAULT_TIER: "pro" }, async (config, secrets, log) => {
    const engine = await startLocalEngine(config as never, secrets, log);
    const scale: typeof engine.runtime.scale = async (id, version, wanted) => {
      scales.push(wanted);
      await engine.runtime.scale(id, version, wanted);
    };
    return { ...engine, runtime: { ...engine.runtime, autoscales: true, scale } };
  });
});
afterAll(() => Promise.all([berth?.stop(), scaling?.stop()]));

/** Returns the replicas of the first service that a stream shows. */
async function firstReplicas(events: AsyncIterable<EnvironmentEvent>) {
  for await (const { event } of events) if (event.case === "set") return event.value.replicas;
  return undefined;
}

test("on one machine autoscaling is refused with a sentence, and turning it off is not", async () => {
  const { catalog, path, environment } = await createWebService(berth.port);
  const on = catalog.updateService({ ...path, config: { autoscaling: { max: 3 } } });
  expect(await refused(on)).toBe("422 validation_failed autoscaling_needs_cluster");
  await expect(on).rejects.toThrow("needs a cluster");
  const made = { ...environment, name: "jobs", type: "worker", config: { autoscaling: { max: 2 } } };
  expect(await refused(catalog.createService(made))).toBe("422 validation_failed autoscaling_needs_cluster");
  const off = await catalog.updateService({ ...path, config: { autoscaling: {} } });
  expect(off.config?.autoscaling).toBeUndefined();
});

test("autoscaling has defaults, is changed by its members, keeps the fixed number, and is turned off by an empty object", async () => {
  const { catalog, path, environment } = await createWebService(scaling.port);
  const update = async (autoscaling: object) =>
    (await catalog.updateService({ ...path, config: { autoscaling } })).config;
  expect(await refused(update({ min: 1 }))).toBe("422 validation_failed required");
  expect(await update({ max: 2 })).toMatchObject({
    replicas: 1,
    autoscaling: { min: 1, max: 2, targetCpuPercent: 70 },
  });
  expect(await update({ targetCpuPercent: 50 })).toMatchObject({
    autoscaling: { min: 1, max: 2, targetCpuPercent: 50 },
  });
  expect(await refused(update({ min: 3 }))).toBe("422 validation_failed out_of_range");
  expect(await refused(update({ max: 21 }))).toBe("422 validation_failed out_of_range");
  expect((await update({}))?.autoscaling).toBeUndefined();
  const addon = {
    ...environment,
    name: "db",
    type: "postgres",
    staged: true,
    config: { autoscaling: { max: 2 } },
  };
  expect(await refused(catalog.createService(addon))).toBe("422 validation_failed not_deployable");
});

test("the most replicas count against the plan", async () => {
  const { catalog, path, accountId } = await createWebService(scaling.port);
  await scaling.pool.query(
    "insert into accounts (id, tier) values ($1, 'free') on conflict (id) do update set tier = 'free'",
    [accountId],
  );
  const update = (max: number) => catalog.updateService({ ...path, config: { autoscaling: { max } } });
  expect(await refused(update(2))).toBe("403 quota_exceeded");
  expect((await update(1)).config?.autoscaling?.max).toBe(1);
});

test("it reaches the running release at once, without a new version, and so does its end", async () => {
  const service = await createWebService(scaling.port, { config: { minReadySeconds: 0 } });
  const { catalog, path, deployArchive, untilService } = service;
  await deployArchive(path, await archiveOf(app));
  await untilService(path, "running");
  scales.length = 0;
  const on = await catalog.updateService({ ...path, config: { autoscaling: { max: 2 } } });
  expect(on.pendingChanges).toBe(false);
  const autoscaling = { min: 1, max: 2, targetCpuPercent: 70 };
  await eventually("it is scaled by its CPU", async () => scales.length > 0);
  expect(scales[0]).toEqual({ replicas: 1, size: "nano", autoscaling });
  const shown = await firstReplicas(catalog.followEnvironment(service.environment));
  expect(shown).toMatchObject({ wanted: 1, available: 1 });
  await catalog.updateService({ ...path, config: { replicas: 0 } });
  await untilService(path, "stopped");
  expect(scales.at(-1)).toEqual({ replicas: 0, size: "nano" });
  await catalog.updateService({ ...path, config: { replicas: 1 } });
  await untilService(path, "running");
  expect(scales.at(-1)).toEqual({ replicas: 1, size: "nano", autoscaling });
  const off = await catalog.updateService({ ...path, config: { autoscaling: {} } });
  expect(off.pendingChanges).toBe(false);
  await eventually("the number is fixed again", async () => !scales.at(-1)?.autoscaling);
  expect((await service.deployments.listDeployments(path)).data).toHaveLength(1);
});
