import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from "@modelcontextprotocol/client";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

/** What a tool answered. */
export type ToolResult = {
  isError: boolean;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it.
  data: any;
};

/** A client of MCP that is connected. */
export type McpClient = {
  tools: () => Promise<{ name: string; [member: string]: unknown }[]>;
  call: (name: string, input?: object) => Promise<ToolResult>;
  /** Makes both steps of a write: the preview, and what it confirms. */
  write: (name: string, input: object) => Promise<ToolResult>;
  client: ModernClient;
  close: () => Promise<void>;
};

type Options = { url: string; headers?: Record<string, string>; answer?: Answer };

/** What the client's user answers to a question. */
type Answer = (question: string) => boolean;

const INFO = { name: "a-test", version: "1.0.0" };

/** The clients of the protocol: its newest revision, and the earlier ones. */
export const generations = [
  {
    name: "client 2, revision 2026-07-28",
    connect: (options: Options) => connectModern(options, { mode: { pin: "2026-07-28" } }),
  },
  {
    name: "client 2, revision 2025-11-25",
    connect: (options: Options) => connectModern(options, { mode: "legacy" }),
  },
  { name: "sdk 1", connect: connectOld },
];

/** Connects a client of the newest revision; one with `answer` asks its user. */
export async function connectModern(
  { url, headers = {}, answer }: Options,
  versionNegotiation: object = { mode: { pin: "2026-07-28" } },
): Promise<McpClient> {
  const capabilities = answer ? { elicitation: { form: {} } } : {};
  const client = new ModernClient(INFO, { capabilities, versionNegotiation } as never);
  if (answer)
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      const confirm = answer(params.message);
      return confirm ? { action: "accept" as const, content: { confirm } } : { action: "decline" as const };
    });
  await client.connect(new ModernTransport(new URL(url), { requestInit: { headers } }));
  return withCalls(client);
}

async function connectOld({ url, headers = {}, answer }: Options): Promise<McpClient> {
  const client = new OldClient(INFO, { capabilities: answer ? { elicitation: {} } : {} });
  if (answer)
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) =>
      answer(params.message) ? { action: "accept", content: { confirm: true } } : { action: "decline" },
    );
  await client.connect(new OldTransport(new URL(url), { requestInit: { headers } }) as never);
  return withCalls(client as never);
}

/** Returns a connected client as tests use it. */
export function withCalls(client: ModernClient): McpClient {
  const call: McpClient["call"] = async (name, input = {}) => {
    const result = await client.callTool({ name, arguments: { ...input } });
    const [content] = result.content as { text: string }[];
    return { isError: result.isError === true, text: content!.text, data: result.structuredContent };
  };
  return {
    client,
    tools: async () => (await client.listTools()).tools as never,
    call,
    async write(name, input) {
      const first = await call(name, input);
      if (first.isError) throw new Error(`${name}: ${first.text}`);
      const second = await call(name, { ...input, confirmation: first.data.confirmation });
      if (second.isError) throw new Error(`${name}: ${second.text}`);
      return second;
    },
    close: () => client.close(),
  };
}
