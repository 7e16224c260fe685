import { expect, test } from "vitest";
import { createEntitlements } from "../../kit/plans.ts";
import { getsSmaller } from "./gets-smaller.ts";

const settings = {
  defaultTier: "free",
  planQuotas: "on",
  planOpenPorts: { team: [465, 587], pro: [465] },
  planSizes: { pro: "small", team: "large" },
  planStorage: {},
  planBackupDays: { team: 30 },
} as const;
const entitlementsOf = createEntitlements(structuredClone(settings) as never);

test("a smaller plan says of each of its limits what it is instead, and a larger one nothing", () => {
  const [pro, team] = [entitlementsOf("pro"), entitlementsOf("team")];
  const [history, builds, storage, domains, runs, size, backups, ports, ...rest] = getsSmaller(team, pro);
  expect(rest).toEqual([]);
  expect(history).toContain("20 versions that were live are retained instead of 100");
  expect(builds).toBe("Up to 2 builds run at once instead of 5.");
  expect(storage).toContain("50 GiB at most");
  expect(domains).toContain("20 domains instead of 100");
  expect(runs).toContain("10 runs can be under way instead of 50");
  expect(size).toContain("size small at most");
  expect(backups).toContain("7 days instead of 30");
  expect(ports).toContain("port 587");
  expect(getsSmaller(pro, team)).toEqual([]);
});
