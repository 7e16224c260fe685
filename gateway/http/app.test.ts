import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { anyName, refusalOf } from "../testing/api-client.ts";
import { rawRequest } from "../testing/raw-request.ts";
import { recordedGateway } from "../testing/recorded-gateway.ts";
import { testPlatform } from "../testing/test-platform.ts";

let recorded: Awaited<ReturnType<typeof recordedGateway>>;

beforeAll(async () => {
  recorded = await recordedGateway();
});

afterAll(() => recorded.platform.stop());

describe("every answer is in the envelope with a request id", () => {
  test("unknown paths, wrong methods with Allow, paths that can not be decoded", async () => {
    expect(refusalOf(await recorded.call("GET", "/nowhere"))).toBe("404 not_found");
    expect(refusalOf(await recorded.call("GET", `/me/${"x".repeat(600)}`))).toBe("404 not_found");
    expect(refusalOf(await recorded.call("GET", `${recorded.A}/projects/%zz`))).toBe("400 malformed_request");
    const wrong = await recorded.call("PUT", `${recorded.P}/variables/A`, {});
    expect(refusalOf(wrong)).toBe("405 method_not_allowed");
    expect(wrong.headers.get("allow")).toBe("DELETE, GET, HEAD, PATCH");
    const odd = await new Promise<number>((resolve) => {
      const options = { method: "PROPFIND", headers: { connection: "close" } };
      httpRequest(`${recorded.gateway.baseUrl}/me`, options, (res) =>
        resolve(res.resume().statusCode!),
      ).end();
    });
    expect(odd).toBe(405);
  });

  test.each([
    ["/v1/accounts/", "no slash at the end. Use /v1/accounts."],
    ["/v1/me/tokens/?limit=1", "no slash at the end. Use /v1/me/tokens."],
    ["/v1//accounts", "no empty parts"],
    ["/v1/accounts/acc_1/projects/", "Use /v1/accounts/{accountId}/projects."],
    ["/accounts", "begin with /v1. Use /v1/accounts."],
    ["/accounts/acc_1/projects/", "begin with /v1. Use /v1/accounts/{accountId}/projects."],
    ["/v1/v1/me", "/v1 twice. Use /v1/me."],
    ["/profile/", "Use /profile."],
    ["/v1/nowhere", "All of them are at /docs."],
  ])("GET %s says what is wrong with the path", async (path, sentence) => {
    const { origin } = recorded.gateway;
    for (const headers of [{}, { authorization: "Bearer nonsense" }]) {
      const answer = await fetch(origin + path, { headers });
      const { error } = (await answer.json()) as { error: { code: string; message: string } };
      expect([answer.status, error.code, error.message]).toEqual([
        404,
        "not_found",
        expect.stringContaining(sentence),
      ]);
      expect(error.message).toMatch(/^There is no such endpoint\b/);
    }
    // Not the words that were sent.
    const shown = await fetch(`${origin}/v1/<script>`, { headers: { accept: "text/html" } });
    expect(await shown.text()).toContain("There is no such page. Yours begin at /profile");
  });

  test("a name in place of a project's or an environment's id says that it is one", async () => {
    const at = async (path: string) => {
      const answer = await recorded.call("GET", path);
      return `${refusalOf(answer)}: ${answer.body.error.message}`;
    };
    expect(await at(`${recorded.A}/projects/shop`)).toMatch(
      /^404 not_found: There is no such project\. .*prj_/,
    );
    expect(await at(`${recorded.P}/environments/production/services`)).toMatch(
      /^404 not_found: There is no such environment\. .*env_/,
    );
    expect((await recorded.call("GET", `${recorded.P}/variables`)).status).toBe(200);
  });

  test("a body, or headers, that are too large are told the limit", async () => {
    const large = await recorded.call("POST", "/sessions", { email: "x".repeat(100_000) }, { token: "" });
    expect([refusalOf(large), large.body.error.message]).toEqual([
      "413 payload_too_large",
      expect.stringMatching(/^The body may have at most \d+ KiB here\.$/),
    ]);
    const head = `GET / HTTP/1.1\r\nhost: x\r\ncookie: ${"x".repeat(20_000)}\r\n\r\n`;
    expect(await rawRequest(recorded.gateway.port, head)).toContain("The headers may have at most 16 KiB.");
  });

  test("a request id that is not plain is replaced", async () => {
    const answer = await recorded.call("GET", "/me", undefined, { headers: { "x-request-id": "a b{}" } });
    expect(answer.headers.get("x-request-id")).toMatch(/^req_[0-9a-z]{23}$/);
  });

  test("what is not HTTP, and headers that are too large", async () => {
    const raw = (text: string) => rawRequest(recorded.gateway.port, text);
    expect(await raw("hello\r\n\r\n")).toMatch(
      /^HTTP\/1\.1 400 [\s\S]*x-request-id: req_[\s\S]*"malformed_request"/,
    );
    expect(await raw(`GET / HTTP/1.1\r\nhost: x\r\ncookie: ${"x".repeat(20_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 [\s\S]*"malformed_request"/,
    );
  });

  test.each(["GET", "DELETE", "POST"])(
    "a %s that names the type of a body which it does not have",
    async (method) => {
      const head = `${method} /v1/me HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n`;
      expect(await rawRequest(recorded.gateway.port, head)).toMatch(/^HTTP\/1\.1 4[\s\S]*x-request-id: req_/);
    },
  );

  test("an Expect header that asks for what is not there", async () => {
    const strange = (method: string) =>
      rawRequest(
        recorded.gateway.port,
        `${method} /v1/accounts HTTP/1.1\r\nhost: x\r\nexpect: tea\r\ncontent-length: 9\r\n\r\n`,
      );
    for (const method of ["GET", "POST"])
      expect(await strange(method)).toMatch(
        /^HTTP\/1\.1 417 [\s\S]*x-request-id: req_[\s\S]*connection: close[\s\S]*"malformed_request"/i,
      );
    const usual = "GET /healthz HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    expect(await rawRequest(recorded.gateway.port, usual)).toMatch(/^HTTP\/1\.1 100 [\s\S]*HTTP\/1\.1 200 /);
  });

  test("health, readiness, and metrics by route and status on a port of their own", async () => {
    const measured = await recorded.platform.gateway({ METRICS_PORT: "0" });
    const port = `http://127.0.0.1:${measured.metricsPort}`;
    for (const path of ["/healthz", "/readyz"]) {
      expect((await fetch(measured.origin + path)).status).toBe(200);
      expect((await fetch(port + path)).status).toBe(404);
    }
    await measured.call("GET", `${recorded.P}/variables`);
    const metrics = await (await fetch(`${port}/metrics`)).text();
    expect(metrics).toContain("process_cpu_user_seconds_total");
    const counted = metrics.split("\n").filter((line) => /_count\{.*status="200"/.test(line));
    const routes = counted.map((line) => /route="([^"]+)"/.exec(line)?.[1]);
    expect(routes).toContain("/accounts/{account_id}/projects/{project_id}/variables");
  });

  test("metrics are never at the public port, whether they have one of their own or not", async () => {
    const ways = ["/metrics", "/metrics?x=1", "/metrics/", "//metrics", "/v1/metrics", "/v1/../metrics"];
    for (const extra of [{}, { METRICS_PORT: "0" }]) {
      const { port } = await recorded.platform.gateway(extra as Record<string, string>);
      for (const path of [...ways, "/%6Detrics", `http://127.0.0.1:${port}/metrics`]) {
        const answer = await rawRequest(port, `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
        expect([path, answer]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 404 /)]);
        expect(answer).not.toContain("process_cpu");
      }
      const uploads =
        "PUT /uploads/../metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
      expect(await rawRequest(port, uploads)).not.toContain("process_cpu");
    }
  });
});

describe("when something is away", () => {
  test("a service that can not be reached is 503 with Retry-After", async () => {
    const lonely = await recorded.platform.gateway({ VARIABLES_URL: "http://127.0.0.1:1" });
    const answer = await lonely.call("GET", `${recorded.P}/variables`);
    expect(refusalOf(answer)).toBe("503 unavailable");
    expect(answer.headers.get("retry-after")).toBe("1");
  });

  test("identity away is 503 for a token that is not remembered", async () => {
    const lonely = await recorded.platform.gateway({ IDENTITY_URL: "http://127.0.0.1:1" });
    expect(refusalOf(await lonely.call("GET", `${recorded.P}/variables`))).toBe("503 unavailable");
    expect(refusalOf(await lonely.call("GET", "/me", undefined, { token: "" }))).toBe("401 unauthenticated");
  });
});

describe("stopping", () => {
  test("a request under way is answered before the gateway is gone", async () => {
    let enter = () => {};
    const entered = new Promise<void>((resolve) => {
      enter = resolve;
    });
    let leave = () => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const slow = await testPlatform({
      variables: {
        listVariables: async () => {
          enter();
          await left;
          return {};
        },
      },
    });
    const stopping = await slow.gateway();
    const accounts = await stopping.call("GET", "/accounts");
    const id = (accounts.body.data as { id: string }[])[0]!.id;
    const answer = stopping.call("GET", `/accounts/${id}/projects/prj_1/variables`);
    await entered;
    const stopped = stopping.stop();
    const { port } = new URL(stopping.origin);
    await eventually("the gateway takes no new connections", async () => {
      return new Promise<boolean>((resolve) => {
        const socket = connect(Number(port), "127.0.0.1", () => resolve(!socket.destroy()));
        socket.on("error", () => resolve(true));
      });
    });
    leave();
    expect((await answer).status).toBe(200);
    await stopped;
    await slow.stop();
  });
});

test("logs name no token and no value", async () => {
  await recorded.call("POST", `${recorded.P}/variables`, {
    name: anyName("N"),
    value: "marker-value-in-a-body",
  });
  await recorded.call("GET", `/nowhere?token=${recorded.platform.ownerToken}`);
  await recorded.call("GET", `/me?token=${recorded.platform.ownerToken}`);
  await recorded.call("POST", `${recorded.P}/variables/A/reveal`, { value: "marker-value-in-a-body" });
  for (const path of ["/me", "/accounts", `${recorded.P}/variables`, `${recorded.S}/resolved-variables`])
    for (const method of ["GET", "HEAD"]) await recorded.call(method, path);
  expect(recorded.logLines.length).toBeGreaterThan(10);
  expect(recorded.logLines.join("")).not.toContain(recorded.platform.ownerToken);
  expect(recorded.logLines.join("")).not.toContain("marker-value-in-a-body");
});
