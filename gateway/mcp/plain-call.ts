import type { IncomingHttpHeaders } from "node:http";
import type { CallToolResult } from "@modelcontextprotocol/server";
import { isObject } from "../routing/json-shape.ts";
import type { ToolSession } from "./call-tool.ts";
import type { ToolServers } from "./server.ts";

const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const REQUEST = ["jsonrpc", "id", "method", "params"];
const PARAMS = ["name", "arguments", "_meta"];
const ENVELOPE = ["protocolVersion", "clientInfo", "clientCapabilities"].map((name) => META + name);

type PlainCall = { id: string | number; name: string; arguments?: Record<string, unknown> };

/**
 * Returns the response to a call of a tool as most clients send it, and undefined for every other message. The SDK takes
 * several times as long for a message as the API for the request behind it, so what has no more to it than a name and
 * arguments does without. A test compares both.
 */
export async function answerPlainCall(
  message: unknown,
  headers: IncomingHttpHeaders,
  { servers, session }: { servers: ToolServers; session: ToolSession },
): Promise<object | undefined> {
  const call = readPlainCall(message, headers);
  if (!call || !servers.names.includes(call.name)) return undefined;
  const { result } = (await servers.call(session, call, { canAsk: false })) as { result: CallToolResult };
  const _meta = { [`${META}serverInfo`]: servers.serverInfo };
  return { result: { ...result, resultType: "complete", _meta }, jsonrpc: "2.0", id: call.id };
}

function readPlainCall(message: unknown, headers: IncomingHttpHeaders): PlainCall | undefined {
  if (!isObject(message) || !hasOnly(message, REQUEST)) return undefined;
  const { jsonrpc, id, method, params } = message as Record<string, unknown>;
  if (jsonrpc !== "2.0" || method !== "tools/call" || !isId(id)) return undefined;
  if (!isObject(params) || !hasOnly(params, PARAMS)) return undefined;
  const { name, arguments: input = {}, _meta: meta } = params as Record<string, unknown>;
  if (typeof name !== "string" || !isObject(input) || !isObject(meta) || !hasOnly(meta, ENVELOPE))
    return undefined;
  const [version, client, capabilities] = ENVELOPE.map((each) => (meta as Record<string, unknown>)[each]);
  const isPlain =
    version === VERSION &&
    isClientInfo(client) &&
    // One that has capabilities may want to be asked.
    isObject(capabilities) &&
    Object.keys(capabilities as object).length === 0 &&
    headers["mcp-protocol-version"] === VERSION &&
    headers["mcp-method"] === method &&
    headers["mcp-name"] === name &&
    /json/.test(headers.accept ?? "");
  return isPlain ? { id, name, arguments: input as Record<string, unknown> } : undefined;
}

function isClientInfo(info: unknown): boolean {
  if (!isObject(info)) return false;
  const texts = Object.values(info).every((each) => typeof each === "string");
  return texts && Object.hasOwn(info, "name") && Object.hasOwn(info, "version");
}

const isId = (id: unknown): id is string | number =>
  typeof id === "string" || (typeof id === "number" && Number.isSafeInteger(id));

const hasOnly = (value: unknown, names: string[]) =>
  Object.keys(value as object).every((name) => names.includes(name));
