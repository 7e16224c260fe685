import { join } from "node:path";
import { encode } from "gpt-tokenizer";
import { beforeAll, expect, test } from "vitest";
import { allRoutes } from "../../routing/routes.ts";
import { needsOf } from "../allowed-tools.ts";
import { createToolServers, type ToolServers } from "../server.ts";
import { readDocs } from "../texts/docs.ts";
import { allTools } from "./all.ts";
import type { Tool } from "./tool.ts";

const MAX_TOKENS = 4_000;

let tools: Tool[];
let servers: ToolServers;

beforeAll(async () => {
  tools = allTools(await readDocs(join(import.meta.dirname, "../../../docs")));
  servers = await createToolServers({
    callTool: () => Promise.reject(new Error("not called")),
    routes: allRoutes(),
    baseUrl: () => "",
  });
});

test("all tools together leave a model its context", () => {
  expect(encode(JSON.stringify(servers.tools)).length).toBeLessThanOrEqual(MAX_TOKENS);
  expect(servers.names.length).toBeGreaterThanOrEqual(16);
  expect(servers.names.length).toBeLessThanOrEqual(20);
});

test("no tool calls what reveals, bills, or is about members, tokens and grants", () => {
  const called = tools.flatMap(({ calls }) => calls.map(({ parent, name }) => `${parent.name}.${name}`));
  for (const name of called)
    expect(name).toMatch(
      /^(?:CatalogService|DeploymentService)\.|^VariablesService\.(?:Get|List|Batch)|^AccountService\.GetAccount$|^BillingService\.GetComputeUsage$/,
    );
  expect(called.join()).not.toMatch(/Reveal|RotateCredentials|Upload/);
});

test("a tool needs the highest role of the requests behind it, and what changes anything says so", () => {
  const needs = needsOf(tools, allRoutes());
  for (const { name, does, calls } of tools) {
    if (does !== "reads") expect(needs.get(name)!.machine, name).toBe("editor");
    const reads = calls.every((rpc) => /^(?:Get|List)/.test(rpc.name));
    expect(does === "reads", name).toBe(reads);
  }
  expect(needs.get("get_usage")).toEqual({ user: "owner", machine: "owner" });
});

test("what destroys or changes what runs takes two steps", () => {
  const oneStep = tools.filter((tool) => tool.does !== "reads" && !("preview" in tool));
  expect(oneStep.map(({ name }) => name)).toEqual([
    ...["create_project", "create_environment", "create_service"],
    "cancel_deployment",
  ]);
});
