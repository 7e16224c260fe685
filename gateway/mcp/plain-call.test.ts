import { createMcpHandler } from "@modelcontextprotocol/server";
import { beforeAll, expect, test } from "vitest";
import type { CachedCaller } from "../auth/caller-cache.ts";
import { allRoutes } from "../routing/routes.ts";
import type { ToolSession } from "./call-tool.ts";
import { answerPlainCall } from "./plain-call.ts";
import { createToolServers, type ToolServers } from "./server.ts";

const VERSION = "2026-07-28";
const NAME = "get_service";

let servers: ToolServers;
let bySdk: (message: object, headers: Record<string, string>) => Promise<{ status: number; body: unknown }>;

const caller = { kind: "machine", roles: new Map([["acc_1", "reader"]]) } as unknown as CachedCaller;
const session = { caller, narrowing: { readOnly: false } } as ToolSession;

beforeAll(async () => {
  servers = await createToolServers({
    callTool: async ({ input }) => ({
      result: {
        content: [{ type: "text", text: `Grüße ${JSON.stringify(input)}` }],
        structuredContent: { ...input },
      },
    }),
    routes: allRoutes(),
    baseUrl: () => "",
  });
  const handler = createMcpHandler(() => servers.create(session));
  bySdk = async (message, headers) => {
    const body = JSON.stringify(message);
    const answer = await handler.fetch(
      new Request("http://127.0.0.1/mcp", { method: "POST", headers, body }),
    );
    return { status: answer.status, body: JSON.parse(await answer.text()) };
  };
});

function message(params: object = {}, meta: object = {}, more: object = {}) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": { name: "a-client", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
    ...meta,
  };
  const input = { service: "shop/production/web" };
  return {
    ...{ jsonrpc: "2.0", id: 7, method: "tools/call" },
    params: { name: NAME, arguments: input, _meta, ...params },
    ...more,
  };
}

const headers = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  "mcp-protocol-version": VERSION,
  "mcp-method": "tools/call",
  "mcp-name": NAME,
};

test.each([
  ["a call", message()],
  ["a call with an id that is a text", message({}, {}, { id: "seven" })],
  ["a call with arguments that are wrong", message({ arguments: { name: 1 } })],
])("%s is answered as the SDK answers it", async (_which, sent) => {
  const answered = await answerPlainCall(sent, headers, { servers, session });
  expect({ status: 200, body: answered }).toEqual(await bySdk(sent, headers));
});

test("what a role does not allow is answered as the SDK answers it", async () => {
  const sent = message({ name: "delete", arguments: { path: "shop" } });
  const named = { ...headers, "mcp-name": "delete" };
  expect(await answerPlainCall(sent, named, { servers, session })).toEqual((await bySdk(sent, named)).body);
});

test.each<[string, unknown, Record<string, string>?]>([
  ["of another revision", message({}, { "io.modelcontextprotocol/protocolVersion": "2025-11-25" })],
  [
    "of a client that can be asked",
    message({}, { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } }),
  ],
  ["with an answer of the user", message({ inputResponses: {}, requestState: "x" })],
  ["that wants progress", message({}, { progressToken: 1 })],
  ["of a tool that does not exist", message({ name: "reveal" }), { ...headers, "mcp-name": "reveal" }],
  ["whose headers say something else", message(), { ...headers, "mcp-name": "delete" }],
  ["without an envelope", { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: NAME } }],
  ["without an id", message({}, {}, { id: undefined })],
  ["with an id that is no id", message({}, {}, { id: null })],
  ["that is another method", message({}, {}, { method: "tools/list" })],
  ["that is no object", "tools/call"],
])("a message %s is left to the SDK", async (_which, sent, own = headers) => {
  expect(await answerPlainCall(sent, own, { servers, session })).toBeUndefined();
});
