import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodeEnv } from "../services/kit/testing/service-process.ts";
import { eventually } from "../services/kit/testing/testing.ts";
import { apiClient } from "./testing/api-client.ts";
import { type TestPlatform, testPlatform } from "./testing/test-platform.ts";

let platform: TestPlatform;
let traceparent: string | null;

beforeAll(async () => {
  platform = await testPlatform({
    catalog: {
      listProjects: (_request, ctx) => {
        traceparent = ctx.requestHeader.get("traceparent");
        return {};
      },
    },
  });
});

afterAll(() => platform.stop());

function run(env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, "main.ts")], {
    env: { ...nodeEnv, ...platform.gatewayEnv, LOG_LEVEL: "info", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

function baseUrlOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const { baseUrl } = JSON.parse(line) as { baseUrl?: string };
      if (baseUrl) resolve(baseUrl);
    });
    child.once("exit", () => reject(new Error("the gateway ended")));
  });
}

test("a trace goes from the client through the gateway to the service, and the gateway's span is exported", async () => {
  const exported: string[] = [];
  const collector = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    exported.push(body);
    res.end("{}");
  }).listen(0, "127.0.0.1");
  await once(collector, "listening");
  const { port } = collector.address() as AddressInfo;
  const child = run({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
  const call = apiClient(await baseUrlOf(child), platform.ownerToken);
  const accounts = await call("GET", "/accounts");
  const id = (accounts.body.data as { id: string }[])[0]!.id;
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
  await call("GET", `/accounts/${id}/projects`, undefined, { headers });
  expect(traceparent).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-01$`));
  expect(traceparent).not.toBe(headers.traceparent);
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
  await eventually("the span is exported", async () => {
    const all = exported.join("\n");
    return all.includes("GET /accounts/{account_id}/projects") && all.includes(trace);
  });
  collector.close();
});

test("a process that leaves answers on, and every answer closes its connection", async () => {
  const child = run({ LINGER_MS: "3000" });
  const origin = new URL(await baseUrlOf(child)).origin;
  const connection = async (url: string) => (await fetch(url)).headers.get("connection");
  expect(await connection(`${origin}/healthz`)).toBe("keep-alive");
  child.kill("SIGTERM");
  await eventually("answers close", async () => (await connection(`${origin}/healthz`)) === "close");
  const call = apiClient(`${origin}/v1`, platform.ownerToken);
  const answer = await call("GET", "/accounts");
  expect([answer.status, answer.headers.get("connection")]).toEqual([200, "close"]);
  expect(await once(child, "exit")).toEqual([0, null]);
});

test("a configuration that is not usable ends it with 78 and all mistakes at once", async () => {
  const child = run({ IDENTITY_URL: "nonsense", TRUST_PROXY: "everybody", API_PREFIX: "v1" });
  let said = "";
  child.stderr!.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = (await once(child, "close")) as [number];
  expect(code).toBe(78);
  for (const name of ["IDENTITY_URL", "TRUST_PROXY", "API_PREFIX"]) expect(said).toContain(name);
});
