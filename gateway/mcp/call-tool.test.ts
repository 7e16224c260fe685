import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import type { CachedCaller } from "../auth/caller-cache.ts";
import { createCallTool, type ToolSession } from "./call-tool.ts";
import { createConfirmations } from "./confirmations.ts";
import { objectOf, TEXT } from "./shape.ts";
import { argumentsSchema, twoStep } from "./tools/tool.ts";

const ACCOUNTS = ["a", "b"].map((letter) => `acc_${letter.repeat(20)}`);

const restart = twoStep<object>({
  name: "restart",
  title: "Restart",
  description: "",
  does: "changes",
  calls: [],
  input: argumentsSchema({}),
  output: objectOf({ done: TEXT }),
  preview: async () => ({ question: "Restart?", shown: {}, state: { liveVersion: 1 } }),
  perform: async () => ({ data: { done: "yes" } }),
});

test("a confirmation of a connection to one account does nothing in another that looks the same", async () => {
  const query = async () => ({ rows: [], rowCount: 1 });
  const callTool = createCallTool({
    callApi: () => Promise.reject(new Error("There is no API.")),
    confirmations: createConfirmations({ pool: { query } as never, keys: [randomBytes(32)] }),
    log: createLog("test", "silent"),
  });
  const roles = new Map(ACCOUNTS.map((id) => [id, "owner"]));
  const caller = { kind: "user", userId: "usr_1", tokenId: "tok_1", roles } as unknown as CachedCaller;
  async function call(account: string, input: Record<string, unknown>) {
    const session = { caller, narrowing: { account, readOnly: false } } as ToolSession;
    const outcome = await callTool({ tool: restart, input, session, canAsk: false });
    return (outcome as { result: { structuredContent?: object; content: { text: string }[] } }).result;
  }
  const { structuredContent } = await call(ACCOUNTS[0]!, {});
  const { confirmation } = structuredContent as { confirmation: string };
  const elsewhere = await call(ACCOUNTS[1]!, { confirmation });
  expect(elsewhere.content[0]!.text).toMatch(/^confirmation_of_another: /);
  expect((await call(ACCOUNTS[0]!, { confirmation })).structuredContent).toEqual({ done: "yes" });
});
