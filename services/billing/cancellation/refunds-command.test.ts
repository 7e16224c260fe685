import { execFile } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodeEnv } from "../../kit/testing/service-process.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { DAY, subscriber } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

const MAIN = join(import.meta.dirname, "../refunds-main.ts");

/** Runs the operator's command as a process. */
function refunds(...args: string[]): Promise<{ code: number; output: string }> {
  const env = { ...nodeEnv, DATABASE_URL: billing.env.DATABASE_URL };
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
    );
  });
}

test("staff list the refunds that wait, and release or deny each once", async () => {
  expect(await refunds("list")).toEqual({ code: 0, output: "No refund is under review.\n" });
  const [good, bad] = [await subscriber(billing, { members: 5 }), await subscriber(billing)];
  billing.stripe.clock.advance(DAY);
  for (const each of [good, bad]) expect((await each.cancel()).refundUnderReview).toBe(true);
  const listed = await refunds("list");
  expect(listed.code).toBe(0);
  expect(listed.output).toMatch(new RegExp(`${good.id} +${good.accountId} .* \\$360.00 +\\$0.00\n`));
  expect(listed.output).toMatch(new RegExp(`${bad.id} +${bad.accountId} .* \\$180.00 +\\$0.00\n`));
  expect((await refunds("release", good.id)).code).toBe(0);
  expect((await refunds("deny", bad.id)).code).toBe(0);
  await eventually("it is refunded", async () => (await good.step()) === "done");
  expect(await good.refunds()).toEqual([36_000]);
  await good.told(["under_review", 36_000n], ["refunded", 36_000n]);
  expect(await bad.step()).toBe("denied");
  expect(await bad.refunds()).toEqual([]);
  for (const [command, { id }] of [
    ["release", good],
    ["deny", good],
    ["release", bad],
  ] as const)
    expect(await refunds(command, id)).toEqual({ code: 1, output: `No refund of ${id} is under review.\n` });
});

test.each([
  [[]],
  [["list", "more"]],
  [["release"]],
  [["deny"]],
  [["pay", "sub_1"]],
  [["release", "sub_1", "sub_2"]],
])("%j is answered with how to call it", async (args) => {
  const { code, output } = await refunds(...args);
  expect(code).toBe(2);
  expect(output).toContain("Usage: npm run refunds");
});
