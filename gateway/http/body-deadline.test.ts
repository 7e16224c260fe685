import { afterAll, beforeAll, expect, test } from "vitest";
import { anyName } from "../testing/api-client.ts";
import { rawRequest } from "../testing/raw-request.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

const asked = Promise.withResolvers<void>();
const answered = Promise.withResolvers<void>();
let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;

beforeAll(async () => {
  platform = await testPlatform({
    variables: {
      createVariable: async ({ name }) => {
        asked.resolve();
        await answered.promise;
        return { id: "var_1", name };
      },
    },
    uploads: (request, response) => {
      request.resume().once("end", () => response.writeHead(204).end());
      return true;
    },
  });
  gateway = await platform.gateway({ REQUEST_BODY_SECONDS: "1" });
});

afterAll(() => platform.stop());

const LATE = /^HTTP\/1\.1 408 [\s\S]*"request_timeout"/;

/** A request whose body comes byte by byte, for longer than it may. */
function trickle(path: string, type = "application/json"): Promise<string> {
  const lines = [
    `POST ${path} HTTP/1.1`,
    "host: x",
    `authorization: Bearer ${platform.ownerToken}`,
    `content-type: ${type}`,
    "content-length: 1000",
  ];
  return rawRequest(gateway.port, `${lines.join("\r\n")}\r\n\r\n`, "{".padEnd(1_000));
}

test.each([
  ["a route of the API", "/v1/accounts"],
  ["one that needs no token", "/v1/sessions"],
  ["the registration of clients", "/v1/oauth/register"],
  ["no route at all", "/nowhere"],
])("a body that trickles to %s is 408, and the connection is closed", async (_, path) => {
  expect(await trickle(path)).toMatch(LATE);
});

test("a form that trickles to the OAuth provider is 408 as OAuth shapes errors", async () => {
  expect(await trickle("/oauth2/token")).toMatch(/^HTTP\/1\.1 408 [\s\S]*"error":"invalid_request"/);
});

test("a form that trickles to a page is 408 as a page", async () => {
  expect(await trickle("/oauth/login", "application/x-www-form-urlencoded")).toMatch(
    /^HTTP\/1\.1 408 [\s\S]*text\/html[\s\S]*could not be read/,
  );
});

test("a request that has arrived is answered however long that takes", async () => {
  const accounts = await gateway.call("GET", "/accounts");
  const [{ id }] = accounts.body.data as [{ id: string }];
  const slow = gateway.call("POST", `/accounts/${id}/projects/prj_1/variables`, {
    name: anyName("N"),
    value: "",
  });
  await asked.promise;
  expect(await trickle("/v1/accounts")).toMatch(LATE);
  answered.resolve();
  expect((await slow).status).toBe(200);
});

test("an upload is not limited by it", async () => {
  const text = "PUT /uploads/arc_1 HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\nconnection: close\r\n\r\n";
  expect(await rawRequest(gateway.port, text, "x".repeat(15))).toMatch(/^HTTP\/1\.1 204 /);
});
