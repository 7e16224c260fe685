import { afterAll, beforeAll, expect, test } from "vitest";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("a PostgreSQL addon has standbys where its engine has them, and says whether", async () => {
  const { catalog, environment } = await createWebService(berth.port);
  const create = (replicas: number, type = "postgres") =>
    catalog.createService({ ...environment, name: "db", type, config: { replicas }, staged: true });
  expect(await refused(create(2))).toBe("422 validation_failed not_supported_here");
  expect((await refusal(create(2))).message).toContain("Only PostgreSQL on CloudNativePG has standbys");
  expect(await refused(create(0))).toBe("422 validation_failed out_of_range");
  expect(await refused(create(4))).toBe("422 validation_failed out_of_range");
  expect(await refused(create(1, "redis"))).toBe("422 validation_failed not_deployable");
  const { id, capabilities } = await create(1);
  expect(capabilities).toMatchObject({
    maxReplicas: 1,
    maxReplicasReason: expect.stringContaining("CloudNativePG"),
  });
  const service = { ...environment, service: "db" };
  const scale = (replicas: number) => catalog.updateService({ ...service, config: { replicas } });
  expect(await refused(scale(2))).toBe("422 validation_failed not_supported_here");

  await berth.pool.query("update services set addon_engine = 'cnpg' where id = $1", [id]);
  expect(await scale(3)).toMatchObject({
    config: { replicas: 3, size: "nano" },
    capabilities: { maxReplicas: 3 },
  });
  expect((await catalog.getService(service)).capabilities?.maxReplicasReason).toBeUndefined();
  expect(await refused(scale(4))).toBe("422 validation_failed out_of_range");
});
