import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestPlatform, testPlatform } from "../../gateway/testing/test-platform.ts";
import { metricsText } from "../../services/kit/telemetry.ts";
import { expectAlert, promtool } from "./evaluate.ts";

describe.skipIf(!promtool)("an operator is alerted", () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await testPlatform();
  });
  afterAll(() => platform?.stop());

  test("that requests fail, while a service is away", async () => {
    const { call } = await platform.gateway({ VARIABLES_URL: "http://127.0.0.1:1" });
    const accounts = await call("GET", "/accounts");
    const [{ id }] = accounts.body.data as [{ id: string }];
    const before = await metricsText();
    for (let others = 0; others < 9; others++) expect((await call("GET", "/accounts")).status).toBe(200);
    expect((await call("GET", `/accounts/${id}/projects/prj_1/variables`)).status).toBe(503);
    const during = await metricsText();
    await expectAlert("BerthRequestsFail", { before, during, after: during });
  });
});
