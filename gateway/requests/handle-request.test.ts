import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiClient, refusalOf } from "../testing/api-client.ts";
import { recordedGateway } from "../testing/recorded-gateway.ts";

let recorded: Awaited<ReturnType<typeof recordedGateway>>;

beforeAll(async () => {
  recorded = await recordedGateway();
});

afterAll(() => recorded.platform.stop());

describe("what arrives at a service", () => {
  test("path, query and body become one message, with the caller, role and request id", async () => {
    const headers = { "x-request-id": "abc-1" };
    const name = "env_A%2FB c/é";
    const path = `${recorded.P}/environments/${encodeURIComponent(name)}/variables`;
    const answer = await recorded.call("POST", path, ' { "name" : "KEY", "value": "ü \\u00e9" } ', {
      headers,
    });
    expect(answer.body).toMatchObject({ name: "KEY", value: "ü é", sensitive: false });
    const { request, caller, id } = recorded.asked.findLast((one) => one.method === "createVariable")!;
    expect(request).toMatchObject({ projectId: "prj_1", environmentId: name, name: "KEY", value: "ü é" });
    expect(caller).toMatchObject({
      kind: "user",
      role: "owner",
      accountId: recorded.A.split("/")[2],
      ip: "127.0.0.1",
    });
    expect(caller.tokenId).toMatch(/^tok_/);
    expect([id, answer.headers.get("x-request-id")]).toEqual(["abc-1", "abc-1"]);
  });

  test("query texts become numbers and times", async () => {
    const answer = await recorded.call(
      "GET",
      `${recorded.S}/logs?limit=7&since=2026-11-20T10:00:00Z&stream=stdout`,
    );
    expect(answer.status).toBe(200);
    const { request } = recorded.asked.findLast((one) => one.method === "listLogs")!;
    expect(request).toMatchObject({ limit: 7, stream: "stdout", since: { seconds: 1795168800n } });
  });

  test("confirmImpact counts in the body and in the query, on DELETE and on a batch", async () => {
    const path = `${recorded.P}/variables/A`;
    const refused = await recorded.call("DELETE", path);
    expect(refusalOf(refused)).toBe("409 impact_confirmation_required");
    expect(refused.body.error.impact).toEqual({ total: 2, services: [] });
    expect((await recorded.call("DELETE", path, { confirmImpact: true })).status).toBe(204);
    const done = await recorded.call("DELETE", `${path}?confirmImpact=true`);
    expect([done.status, done.text, done.headers.get("content-length")]).toEqual([204, "", null]);
    await recorded.call("POST", `${recorded.P}/variables/batch?confirmImpact=true`, { unset: ["A"] });
    expect(recorded.asked.at(-1)).toMatchObject({
      method: "batchVariables",
      request: { confirmImpact: true, unset: ["A"] },
    });
  });

  test("a client's address is taken from X-Forwarded-For only from a trusted proxy", async () => {
    const addressSeen = async (base: string) => {
      await apiClient(base, recorded.platform.ownerToken)("GET", `${recorded.P}/variables`, undefined, {
        headers: { "x-forwarded-for": "203.0.113.9" },
      });
      return recorded.asked.at(-1)!.caller.ip;
    };
    expect(await addressSeen(recorded.gateway.baseUrl)).toBe("127.0.0.1");
    const trusting = await recorded.platform.gateway({ TRUST_PROXY: "loopback" });
    expect(await addressSeen(trusting.baseUrl)).toBe("203.0.113.9");
  });
});
