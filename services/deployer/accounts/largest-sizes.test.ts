import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { createEntitlements } from "../../kit/plans.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { setTier } from "./sql.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ PLAN_SIZES: '{"pro":"medium"}', PLAN_QUOTAS: "off" });
});
afterAll(() => berth?.stop());

test("a plan may have a largest size without quotas; a service keeps what it had, and grows no more", async () => {
  const { accountId, catalog, environment } = actAs(berth.port, newId("acc"));
  const at = await environment();
  await setTier(berth.pool, accountId, "team", 1n);
  const create = (name: string, size: string) =>
    catalog.createService({ ...at, name, type: "web", config: { size } });
  await create("large", "large");
  await setTier(berth.pool, accountId, "pro", 2n);
  const path = { ...at, service: "large" };
  expect(await refusal(create("web", "large"))).toMatchObject({
    code: "quota_exceeded",
    context: { limit: "medium" },
  });
  const addon = catalog.createService({ ...at, name: "db", type: "redis", config: { size: "large" } });
  expect(await refused(addon)).toBe("403 quota_exceeded");
  await create("web", "medium");
  const resize = (size: string) => catalog.updateService({ ...path, config: { size, replicas: 3 } });
  expect((await resize("large")).config?.size).toBe("large");
  await resize("small");
  expect(await refused(resize("large"))).toBe("403 quota_exceeded");
});

test("the operator's largest size replaces that of the quota, in either direction, and every plan has its own", () => {
  const largest = (planSizes: object, planQuotas: "on" | "off" = "on") => {
    const settings = {
      defaultTier: "free" as const,
      planQuotas,
      planOpenPorts: {},
      planSizes,
      planStorage: {},
      planBackupDays: {},
    };
    const entitlementsOf = createEntitlements(settings);
    return ["free", "pro"].map((tier) => [
      entitlementsOf(tier).largestSize,
      entitlementsOf(tier).quotas?.size,
    ]);
  };
  const none = [undefined, undefined];
  expect(largest({})).toEqual([["nano", "nano"], none]);
  expect(largest({ free: "medium" })).toEqual([["medium", "medium"], none]);
  expect(largest({ pro: "small" })).toEqual([
    ["nano", "nano"],
    ["small", undefined],
  ]);
  expect(largest({ free: "small" }, "off")).toEqual([["small", undefined], none]);
});
