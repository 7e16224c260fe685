import { afterAll, beforeAll, expect, test } from "vitest";
import { openProxy } from "../../services/kit/testing/proxy.ts";
import { anyName } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let A: string;

/** An address where nobody listens. */
const NOWHERE = "http://127.0.0.1:1";

type Line = { level: string; requestId?: string; status?: number; cause?: string };

beforeAll(async () => {
  platform = await testPlatform();
  const { call } = await platform.gateway();
  const accounts = await call("GET", "/accounts");
  A = `/accounts/${(accounts.body.data as { id: string }[])[0]!.id}`;
});

afterAll(() => platform.stop());

/** The lines of a log at warn and above, parsed; no line may hold a stack. */
function warnings(log: string[]): Line[] {
  for (const line of log) expect(line).not.toMatch(/"stack"|\\n +at /);
  return log
    .map((line) => JSON.parse(line) as Line)
    .filter(({ level }) => ["warn", "error", "fatal"].includes(level));
}

test("a request that fails because a service is unreachable is one line, with its request id and the cause", async () => {
  const log: string[] = [];
  const services = { VARIABLES_URL: NOWHERE, DEPLOYER_URL: NOWHERE };
  const { call, origin } = await platform.gateway(services, log);
  const S = `${A}/projects/prj_1/environments/env_1/services/web`;
  const events = { accept: "text/event-stream" };
  const requests: [upstream: string, send: (id: string) => Promise<{ status: number }>][] = [
    [
      "variables",
      (id) => call("GET", `${A}/projects/prj_1/variables`, undefined, { headers: { "x-request-id": id } }),
    ],
    [
      "variables",
      (id) =>
        call(
          "POST",
          `${A}/projects/prj_1/variables`,
          { name: "A", value: "" },
          { headers: { "x-request-id": id, "idempotency-key": id } },
        ),
    ],
    ["deployer", (id) => call("GET", `${S}/logs`, undefined, { headers: { ...events, "x-request-id": id } })],
    [
      "deployer",
      (id) => fetch(`${origin}/uploads/arc_1`, { method: "PUT", body: "x", headers: { "x-request-id": id } }),
    ],
  ];
  for (const [upstream, send] of requests) {
    const id = anyName("r");
    expect((await send(id)).status).toBe(503);
    expect(warnings(log).filter(({ requestId }) => requestId === id)).toMatchObject([
      { status: 503, code: "unavailable", cause: expect.stringMatching(`^${upstream}: .*ECONNREFUSED`) },
    ]);
  }
  expect(warnings(log)).toHaveLength(requests.length);
});

test("so is one that fails because identity is unreachable", async () => {
  const log: string[] = [];
  const { call } = await platform.gateway({ IDENTITY_URL: NOWHERE }, log);
  const id = anyName("r");
  const answer = await call("GET", "/me", undefined, { headers: { "x-request-id": id } });
  expect(answer.status).toBe(503);
  expect(warnings(log)).toMatchObject([
    { requestId: id, status: 503, cause: expect.stringMatching("^identity: ") },
  ]);
});

test("and one whose Idempotency-Key cannot be kept because the database is unreachable", async () => {
  const log: string[] = [];
  const proxy = await openProxy(new URL(platform.database.url("gateway")));
  const { call } = await platform.gateway({ DATABASE_URL: proxy.of(platform.database.url("gateway")) }, log);
  await call("GET", "/me");
  proxy.shut();
  const id = anyName("r");
  const headers = { "x-request-id": id, "idempotency-key": id };
  const answer = await call("POST", `${A}/projects`, { name: "x" }, { headers });
  expect(answer.status).toBe(503);
  expect(warnings(log).filter(({ requestId }) => requestId === id)).toMatchObject([
    { status: 503, cause: expect.stringMatching("^database: ") },
  ]);
});
