import { createInterface } from "node:readline";
import { command } from "../../command.ts";
import { refused } from "../../failure.ts";
import type { Session } from "../../session/session.ts";

type Message = {
  id?: string | number | null;
  method?: string;
  params?: { name?: unknown; uri?: unknown; _meta?: Record<string, unknown> };
};

/** Where a message of the revision 2026-07-28 says which revision it is of. */
const VERSION = "io.modelcontextprotocol/protocolVersion";

/** How much is read of an answer that is not one of the protocol. */
const MAX_REASON = 500;

const mcp = command({
  name: "mcp",
  summary: "Serve the tools of MCP over stdio",
  about: [
    "For MCP clients that cannot sign in by themselves: they start this command, and use the tools with the access of this sign-in. Give the client the command `berth` with the argument `mcp`. Nothing but messages of the protocol is printed.",
  ],
  examples: [
    ["mcp", "the tools of the installation that is used"],
    ["mcp --read-only -p shop", "only what reads, and only one project"],
  ],
  options: {
    "read-only": { kind: "flag", about: "Only tools that change nothing" },
    tools: { kind: "text", value: "NAMES", about: "Only these tools, separated by commas" },
  },
  async run({ options }, ctx) {
    const { common, signal, io } = ctx;
    const session = await ctx.session();
    const query = new URLSearchParams();
    if (common.account) query.set("account", common.account);
    if (common.project) query.set("project", common.project);
    if (options["read-only"]) query.set("read_only", "true");
    if (options.tools) query.set("tools", options.tools);
    const url = `${session.origin}/mcp${query.size > 0 ? `?${query}` : ""}`;
    const open = new Set<Promise<void>>();
    const lines = createInterface({ input: process.stdin, signal });
    for await (const line of lines) {
      if (line.trim() === "") continue;
      const done: Promise<void> = answer(session, url, line, signal)
        .then((text) => {
          if (text !== undefined) process.stdout.write(`${text}\n`);
        })
        .catch((error: unknown) => io.note((error as Error).message))
        .finally(() => open.delete(done));
      open.add(done);
    }
    await Promise.all(open);
  },
});

/** Returns the answer to one message as a line; undefined for a message that has none. */
async function answer(
  session: Session,
  url: string,
  line: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  let message: Message;
  try {
    message = JSON.parse(line) as Message;
  } catch {
    return errorLine(null, -32_700, "This line is not valid JSON.");
  }
  if (typeof message !== "object" || message === null || Array.isArray(message))
    return errorLine(null, -32_600, "A line is one message: an object.");
  const hasAnswer = message.method !== undefined && message.id !== undefined;
  try {
    const response = await session.send(url, {
      method: "POST",
      headers: headersOf(message),
      body: line,
      signal,
    });
    const text = await response.text();
    const found = messageIn(text, response.headers.get("content-type") ?? "");
    if (found !== undefined) return hasAnswer ? found : undefined;
    if (response.ok || !hasAnswer) return undefined;
    throw refused(reasonOf(response.status, text), "berth whoami", "refused");
  } catch (error) {
    if (!hasAnswer) throw error;
    return errorLine(message.id!, -32_603, (error as Error).message);
  }
}

/** Returns what the protocol wants repeated in headers. */
function headersOf({ method, params }: Message): Record<string, string> {
  const version = params?._meta?.[VERSION];
  const name = params?.name ?? params?.uri;
  return {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    ...(typeof version === "string" && {
      "mcp-protocol-version": version,
      ...(method !== undefined && { "mcp-method": method }),
      ...(typeof name === "string" && { "mcp-name": name }),
    }),
  };
}

/** Returns the message of the protocol in an answer, in one line; undefined if there is none. */
function messageIn(text: string, type: string): string | undefined {
  const data = type.startsWith("text/event-stream")
    ? text
        .split("\n")
        .filter((each) => each.startsWith("data:"))
        .at(-1)
        ?.slice(5)
    : text;
  try {
    const found = JSON.parse(data ?? "") as { jsonrpc?: unknown };
    return found.jsonrpc === "2.0" ? JSON.stringify(found) : undefined;
  } catch {
    return undefined;
  }
}

function reasonOf(status: number, text: string): string {
  try {
    return (JSON.parse(text) as { error: { message: string } }).error.message;
  } catch {
    return `The server answered ${status}: ${text.slice(0, MAX_REASON)}`;
  }
}

function errorLine(id: string | number | null, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}

export const commands = [mcp];
