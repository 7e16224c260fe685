import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { openMachine } from "../../support/cli.ts";
import { generations, type McpClient } from "../../support/mcp.ts";
import { consent } from "../../support/oauth/application.ts";
import { clientStore, sdks } from "../../support/oauth/mcp-client.ts";
import { openPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
let url: string;
const connected: McpClient[] = [];

beforeAll(async () => {
  world = await openPlatform();
  url = `${world.origin}/mcp`;
  // A token of the user reaches several accounts, as on a platform that others use as well.
  await world.must("POST", "/accounts", { handle: `other-${Math.random().toString(36).slice(2, 8)}` });
});
afterAll(async () => {
  await Promise.all(connected.map((each) => each.close()));
  await world?.stop();
});

/** Has a user give access to a client that knows nothing but the URL of the tools; returns its token. */
async function signIn(role: "reader" | "editor", { auth } = sdks[1]!) {
  const kept = clientStore("A client of the tools");
  expect(await auth(kept as never, { serverUrl: url })).toBe("REDIRECT");
  const opened = kept.opened()!;
  const back = await consent(world.call, opened.href, { accountId: world.accountId, role });
  const { code, iss } = Object.fromEntries(back.searchParams);
  const done = { serverUrl: url, authorizationCode: code!, iss };
  expect(await auth(kept as never, done as never)).toBe("AUTHORIZED");
  return { kept, opened, token: kept.tokens()!.access_token };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

type Connection = { query?: string; answer?: (question: string) => boolean };

async function connect(
  generation: (typeof generations)[number],
  token: string,
  { query = "", answer }: Connection = {},
) {
  const headers = bearer(token);
  const client = await generation.connect({ url: url + query, headers, ...(answer && { answer }) });
  connected.push(client);
  return client;
}

test("the address of the tools leads a client to its sign-in, and its token works for the tools only", async () => {
  const bare = await fetch(url, { method: "POST" });
  expect(bare.status).toBe(401);
  const metadata = `${world.origin}/.well-known/oauth-protected-resource/mcp`;
  expect(bare.headers.get("www-authenticate")).toContain(`resource_metadata="${metadata}"`);
  expect(await (await fetch(metadata)).json()).toMatchObject({
    resource: url,
    authorization_servers: [world.origin],
  });
  for (const sdk of sdks) {
    const { opened, token, kept } = await signIn("editor", sdk);
    expect(opened.searchParams.get("resource")).toBe(url);
    expect(decodeJwt(token).aud).toBe(url);
    const client = await connect(generations[0]!, token);
    expect((await client.call("whoami")).data.account).toMatchObject({
      id: world.accountId,
      myRole: "editor",
    });
    const atApi = await world.call("GET", world.A, undefined, { token });
    expect([atApi.status, atApi.body.error?.code]).toEqual([401, "unauthenticated"]);
    await world.must("DELETE", `/me/mcp-grants/${kept.clientInformation()!.client_id}`);
    await eventually("the tools refuse the token", () =>
      client.call("whoami").then(
        () => false,
        () => true,
      ),
    );
  }
});

describe.each(generations)("$name", (generation) => {
  test("a write takes two steps, and only a client of the newest revision asks its user in between", async () => {
    const { token } = await signIn("editor");
    const questions: string[] = [];
    const answer = (question: string) => questions.push(question) > 0;
    const project = `two-steps-${generations.indexOf(generation)}`;
    const client = await connect(generation, token);
    await client.call("create_project", { name: project });
    const input = { path: project, set: [{ name: "LEVEL", value: "1" }] };
    const first = await client.call("set_variables", input);
    expect((await client.call("get_variables", { path: project })).data.variables).toEqual([]);
    const { confirmation } = first.data;
    expect((await client.call("set_variables", { ...input, confirmation })).data.result.applied).toBe(1);
    expect((await client.call("set_variables", { ...input, confirmation })).isError).toBe(true);

    const asking = await connect(generation, token, { answer });
    const more = { path: project, set: [{ name: "MORE", value: "1" }] };
    const { data } = await asking.call("set_variables", more);
    if (generation === generations[0]) expect([questions.length, data.result.applied]).toEqual([1, 1]);
    else expect([questions, data]).toEqual([[], { preview: data.preview, confirmation: expect.any(String) }]);
  });

  test("a reader sees the tools that read, an editor all that machines may use, and calls are answered", async () => {
    const [reader, editor] = await Promise.all(
      (["reader", "editor"] as const).map(async (role) => connect(generation, (await signIn(role)).token)),
    );
    const readers = (await reader!.tools()).map(({ name }) => name);
    const editors = (await editor!.tools()).map(({ name }) => name);
    expect(readers).toContain("get_logs");
    expect(readers).not.toContain("deploy");
    expect(editors).toEqual(expect.arrayContaining([...readers, "deploy", "delete", "set_variables"]));
    // Its route is for owners, which a machine never is.
    expect(editors).not.toContain("get_usage");
    const refused = await reader!.call("create_project", { name: "shop" });
    expect(refused).toMatchObject({ isError: true, text: expect.stringContaining("forbidden") });
    const made = await editor!.call("create_project", { name: `shop-${generations.indexOf(generation)}` });
    expect(made.data.id).toMatch(/^prj_/);
  });

  test("documents and prompts are there, and wrong arguments are answered with what to change", async () => {
    const client = await connect(generation, world.ownerToken);
    const { resources } = await client.client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(
      expect.arrayContaining(["berth://docs/mcp", "berth://openapi.json"]),
    );
    const { contents } = await client.client.readResource({ uri: "berth://docs/mcp" });
    expect((contents[0] as { text: string }).text).toContain("# Tools for AI");
    const service = "shop/production/web";
    const prompt = await client.client.getPrompt({
      name: "why_does_my_service_crash",
      arguments: { service },
    });
    expect(JSON.stringify(prompt.messages)).toContain(service);
    const found = await client.call("search_docs", { query: "how do I roll back a deployment" });
    expect(found.data.sections.map(({ page }: { page: string }) => page)).toContain("deployments");
    expect(await client.call("get_service", { name: "web" })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/invalid_arguments.*service/s),
    });
    expect(await client.call("get_service", { service: "web" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("project/environment/service"),
    });
  });
});

test("the query narrows what a connection lists and does, and a wrong one is refused", async () => {
  const [modern] = generations;
  const reads = await connect(modern!, world.ownerToken, { query: "?read_only" });
  expect(
    (await reads.tools()).every(
      ({ annotations }) => (annotations as object & { readOnlyHint?: boolean }).readOnlyHint,
    ),
  ).toBe(true);
  expect((await reads.call("create_project", { name: "no" })).text).toContain("read_only");
  const some = await connect(modern!, world.ownerToken, { query: "?tools=whoami,create_environment" });
  expect((await some.tools()).map(({ name }) => name)).toEqual(["whoami", "create_environment"]);
  const [one, other] = await Promise.all(
    ["narrow-one", "narrow-other"].map((name) =>
      world.must<{ id: string; name: string }>("POST", `${world.A}/projects`, { name }),
    ),
  );
  const narrow = await connect(modern!, world.ownerToken, {
    query: `?account=${world.accountId}&project=narrow-one`,
  });
  const lost = await connect(modern!, world.ownerToken);
  expect((await lost.call("whoami")).text).toContain("account_needed");
  expect((await narrow.tools()).map(({ name }) => name)).not.toContain("create_project");
  expect((await narrow.call("whoami")).data.projects).toMatchObject([{ id: one!.id }]);
  for (const project of [other!.id, other!.name])
    expect((await narrow.call("create_environment", { project, name: "x" })).text).toContain("forbidden");
  expect((await narrow.call("create_environment", { project: one!.id, name: "x" })).isError).toBe(false);
  for (const query of ["?tools=reveal", "?projekt=shop", "?read_only=maybe"]) {
    const answer = await fetch(url + query, { method: "POST", headers: bearer(world.ownerToken) });
    expect(answer.status).toBe(422);
  }
});

test("a message that is wrong is answered with an error of the protocol, and none of them hangs", async () => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const modern = (method: string, params: object) => ({
    method,
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  });
  const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}';
  const older = (capabilities: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":${capabilities},"clientInfo":{"name":"x","version":"1"}}}`;
  const sent = [
    { body: "{" },
    { body: "" },
    { body: "null" },
    { body: `[${Array(500).fill(call).join()}]` },
    { body: `${"[".repeat(50_000)}${"]".repeat(50_000)}` },
    { body: older(`${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`) },
    { body: older(`{${Array.from({ length: 20_000 }, (_, n) => `"${n}":1`).join()}}`) },
    modern("no/such", {}),
    modern("tools/call", { name: "reveal", arguments: {} }),
    modern("tools/call", { name: "get_service", arguments: [] }),
    modern("resources/read", { uri: "berth://docs/../../package.json" }),
    modern("prompts/get", { name: "why_does_my_service_crash" }),
  ];
  for (const { body, method } of sent as { body: string; method?: string }[]) {
    const headers = {
      ...bearer(world.ownerToken),
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(method && { "mcp-protocol-version": "2026-07-28", "mcp-method": method }),
      ...(method && { "mcp-name": JSON.parse(body).params.name ?? JSON.parse(body).params.uri ?? "" }),
    };
    const answer = await fetch(url, { method: "POST", headers, body });
    const text = await answer.text();
    expect(answer.status, `${body.slice(0, 80)} ${text}`).toBeLessThan(500);
    expect(text, body.slice(0, 80)).toContain('"error"');
    expect(text, body.slice(0, 80)).not.toContain("RangeError");
  }
  for (const method of ["GET", "DELETE"])
    expect((await fetch(url, { method, headers: bearer(world.ownerToken) })).status).toBe(405);
});

test("berth mcp serves the same tools over stdio with the sign-in of the command line", async () => {
  const machine = openMachine({
    ...world.processEnv,
    BERTH_URL: world.origin,
    BERTH_TOKEN: world.ownerToken,
  });
  const child = spawn(
    process.execPath,
    ["clients/cli/bin/berth.js", "mcp", "--account", world.accountId, "--tools", "whoami,get_service"],
    {
      env: machine.env,
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  try {
    const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    const ask = async (method: string, params: object) => {
      child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", id: method, method, params })}\n`);
      return JSON.parse((await lines.next()).value as string);
    };
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const clientInfo = { name: "t", version: "1" };
    const old = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    expect((await ask("initialize", old)).result).toMatchObject({ protocolVersion: "2025-06-18" });
    child.stdin!.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    const { result } = await ask("tools/list", {});
    expect(result.tools.map(({ name }: { name: string }) => name)).toEqual(["whoami", "get_service"]);
    const called = await ask("tools/call", { name: "whoami", arguments: {}, _meta: meta });
    expect(called.result.structuredContent.account.id).toBe(world.accountId);
    for (const [line, code] of [
      ["not json", -32_700],
      ["null", -32_600],
      ["[]", -32_600],
    ] as const) {
      child.stdin!.write(`${line}\n`);
      expect(JSON.parse((await lines.next()).value as string)).toMatchObject({ id: null, error: { code } });
    }
    child.stdin!.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  } finally {
    child.kill();
    machine.remove();
  }
});
