import { type CpuTimes, cpuTimes, perRequest } from "../cpu.ts";
import { load } from "../load.ts";
import { newEnvironment } from "../platform.ts";
import { type Bench, median } from "../row.ts";

const ROUNDS = 5;
const MS = 2_000;
const WARM_MS = 1_500;
const CONNECTIONS = 16;

/** The CPU time of a tool's call in all processes, compared with that of the request behind it, alternating. */
export const mcp: Bench = {
  names: ["mcp-tool-call"],
  run: async (platform) => {
    const { E } = await newEnvironment(platform, "mcp");
    await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
    const authorization = `Bearer ${platform.ownerToken}`;
    const common = { origin: platform.origin, connections: CONNECTIONS };
    const rest = {
      ...common,
      path: `${new URL(platform.baseUrl).pathname}${E}/services/web`,
      headers: { authorization },
    };
    const [, , , , project, , environment] = E.split("/");
    const params = {
      name: "get_service",
      arguments: { service: `${project}/${environment}/web` },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    };
    const tool = {
      ...common,
      path: "/mcp",
      method: "POST",
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
      headers: {
        authorization,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "get_service",
      },
    };
    const answer = await fetch(platform.origin + tool.path, tool);
    const { result } = (await answer.json()) as { result?: { structuredContent?: { name?: string } } };
    if (result?.structuredContent?.name !== "web")
      throw new Error(`the tool answered ${answer.status} ${JSON.stringify(result)}`);
    const times = () => cpuTimes(platform.pid);
    const measure = async (one: typeof rest, ms = MS) => {
      const before = await times();
      const { requests, statuses } = await load({ ...one, ms });
      if (Object.keys(statuses).join() !== "200") throw new Error(`answers were ${JSON.stringify(statuses)}`);
      return perRequest(before, await times(), requests);
    };
    for (const one of [rest, tool]) await measure(one, WARM_MS);
    const rounds: { direct: CpuTimes; called: CpuTimes }[] = [];
    for (let round = 0; round < ROUNDS; round++)
      rounds.push({ direct: await measure(rest), called: await measure(tool) });
    return [
      {
        name: "mcp-tool-call",
        value: median(rounds.map(({ direct, called }) => sumOf(called) / sumOf(direct))),
        unit: "x request",
        goal: "<= 1.3",
        detail: `CPU µs: ${describe(rounds.map(({ called }) => called))}; the request ${describe(rounds.map(({ direct }) => direct))}`,
      },
    ];
  },
};

const sumOf = (times: CpuTimes) => Object.values(times).reduce((sum, each) => sum + each, 0);

/** Returns such as `gateway 230, deployer 510`: the medians. */
function describe(samples: CpuTimes[]): string {
  const parts = [...new Set(samples.flatMap((times) => Object.keys(times)))];
  return parts.map((part) => `${part} ${median(samples.map((times) => times[part] ?? 0))}`).join(", ");
}
