import type { CallToolResult } from "@modelcontextprotocol/server";
import { Histogram } from "prom-client";
import type { Logger } from "../../services/kit/log.ts";
import type { CachedCaller } from "../auth/caller-cache.ts";
import type { CallApi, ToolCall } from "../requests/tool-call.ts";
import { createApi, ToolRefusal } from "./api.ts";
import { CONFIRMATION_SECONDS, type Confirmations, type Refusal } from "./confirmations.ts";
import type { Narrowing } from "./narrowing.ts";
import { fenced, fitted, plain, plainJson } from "./texts/untrusted.ts";
import type { Answer, Tool, TwoStep } from "./tools/tool.ts";

const duration = new Histogram({
  name: "berth_mcp_tool_duration_seconds",
  help: "Duration of calls of MCP tools by tool and outcome",
  labelNames: ["tool", "outcome"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30],
});

/** Who calls tools in one request, and how far. */
export type ToolSession = Omit<ToolCall, "tool" | "rpc" | "members" | "idempotencyKey"> & {
  caller: CachedCaller;
  narrowing: Narrowing;
};

/** What the client's user has answered to the question of a write. */
export type UserAnswer = { confirmation: string; accepted: boolean };

/** The result of a call, or the question that the client is to ask its user. */
export type Outcome = { result: CallToolResult } | { ask: { question: string; confirmation: string } };

type Given = {
  tool: Tool;
  input: Record<string, unknown>;
  session: ToolSession;
  /** Whether the client can ask its user. */
  canAsk: boolean;
  answer?: UserAnswer | undefined;
};

export type CallTool = (given: Given) => Promise<Outcome>;

/** Returns a function that calls a tool with arguments of its schema, and measures and logs the call. */
export function createCallTool(deps: {
  callApi: CallApi;
  confirmations: Confirmations;
  log: Logger;
}): CallTool {
  const { callApi, confirmations, log } = deps;

  async function perform({ tool, input, session, canAsk, answer }: Given): Promise<Outcome> {
    const { caller, narrowing, ...by } = session;
    const api = createApi({ callApi, caller, narrowing, by: { ...by, tool: tool.name } });
    if (!("preview" in tool)) return { result: resultOf(tool, await tool.run(input as never, api)) };

    const { confirmation: sent, ...rest } = input as { confirmation?: string };
    if (answer && !answer.accepted)
      throw new ToolRefusal("declined", "The user declined. Nothing was changed.");
    const confirmation = answer?.confirmation ?? sent;
    const reach = reachOf(caller, await api.at.account());
    const bound = { caller: reach, tool: tool.name, input: rest, asked: answer !== undefined };
    const refusal = confirmation === undefined ? undefined : confirmations.refusalOf(confirmation, bound);
    if (refusal) throw refusedConfirmation(refusal);
    const { question, shown, state } = await (tool as TwoStep<object>).preview(rest, api);
    if (confirmation === undefined) {
      const issued = confirmations.issue({ ...bound, state, asked: canAsk });
      if (canAsk) return { ask: { question: questionOf(question, shown), confirmation: issued } };
      return { result: previewOf(question, shown, issued) };
    }
    const changed = confirmations.changesOf(confirmation, state);
    if (changed.length > 0) throw refusedConfirmation({ why: "changed", changed });
    const id = await confirmations.use(confirmation);
    if (id === undefined) throw refusedConfirmation({ why: "used" });
    const done = await (tool as TwoStep<object>).perform(rest, api, `mcp-${id}`);
    return { result: resultOf(tool, done) };
  }

  return async (given) => {
    const { tool, session } = given;
    const startedAt = performance.now();
    let outcome = "done";
    let code: string | undefined;
    try {
      const found = await perform(given);
      if ("ask" in found || Object.hasOwn(found.result.structuredContent ?? {}, "confirmation"))
        outcome = "preview";
      return found;
    } catch (error) {
      if (!(error instanceof ToolRefusal)) {
        outcome = "failed";
        throw error;
      }
      outcome = error.status >= 500 ? "failed" : "refused";
      code = error.code;
      return { result: refusalOf(error) };
    } finally {
      const ms = performance.now() - startedAt;
      duration.labels(tool.name, outcome).observe(ms / 1000);
      const { requestId, caller } = session;
      const line = {
        tool: tool.name,
        outcome,
        code,
        ms: Math.round(ms * 10) / 10,
        by: caller.kind,
        requestId,
      };
      // As with requests: a read that succeeds is written down only for those who look for it.
      if (tool.does === "reads" && outcome === "done") log.debug(line, "tool called");
      else log.info(line, "tool called");
    }
  };
}

/**
 * Who a confirmation is for, and where: the user or grant, how far the token reaches, and the account of the connection, in
 * which alone the paths of the arguments mean what was shown.
 */
function reachOf({ kind, userId, tokenId, boundTo, roleCap }: CachedCaller, accountId: string): string {
  return [kind, userId, tokenId, boundTo ?? "-", roleCap ?? "-", accountId].join(" ");
}

function resultOf({ output }: Tool, { data, next }: Answer): CallToolResult {
  const cut = output.cut(data) as Record<string, unknown>;
  const structuredContent = fitted(plainJson(cut) as Record<string, unknown>);
  return { content: [{ type: "text", text: fenced(structuredContent, next) }], structuredContent };
}

function previewOf(question: string, shown: object, confirmation: string): CallToolResult {
  const preview = fitted(plainJson(shown) as Record<string, unknown>);
  const next =
    `nothing has changed yet. ${plain(question)} If the user agrees, call again with the same arguments and ` +
    `"confirmation": "${confirmation}", within ${CONFIRMATION_SECONDS / 60} minutes.`;
  return {
    content: [{ type: "text", text: fenced({ preview }, next) }],
    structuredContent: { preview, confirmation },
  };
}

/** How much of what would happen is shown with a question. */
const MAX_QUESTION = 1_500;

function questionOf(question: string, shown: object): string {
  return `${plain(question)}\n\n${plain(JSON.stringify(plainJson(shown), undefined, 1), MAX_QUESTION)}`;
}

/** How long what is said about a refusal is at most. */
const MAX_REFUSAL = 2_000;

function refusalOf({ code, message }: ToolRefusal): CallToolResult {
  return { isError: true, content: [{ type: "text", text: `${code}: ${plain(message, MAX_REFUSAL)}` }] };
}

const AGAIN = "Nothing was changed. Call again without a confirmation to see what would happen now.";

function refusedConfirmation(refusal: Refusal): ToolRefusal {
  const refuse = (code: string, sentence: string) => new ToolRefusal(code, `${sentence} ${AGAIN}`);
  switch (refusal.why) {
    case "unreadable":
      return refuse(
        "confirmation_invalid",
        "This is not a confirmation of this installation, or not all of it.",
      );
    case "expired":
      return refuse("confirmation_expired", "The confirmation has expired.");
    case "caller":
      return refuse(
        "confirmation_of_another",
        "The confirmation was issued to another caller, or in another account.",
      );
    case "arguments":
      return refuse(
        "confirmation_of_other_arguments",
        "The confirmation is for other arguments, or another tool.",
      );
    case "not_asked":
      return refuse("confirmation_not_asked", "The confirmation is for the client's user to give.");
    case "used":
      return new ToolRefusal(
        "confirmation_used",
        "The confirmation was used before. Look at what it has done before you call again without one.",
      );
    case "changed":
      return refuse(
        "state_changed",
        `What the preview was computed from has changed: ${refusal.changed.join(", ")}.`,
      );
  }
}
