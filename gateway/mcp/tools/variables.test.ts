import { expect, test } from "vitest";
import type { Api } from "../api.ts";
import type { TwoStep } from "./tool.ts";
import { variableWrites } from "./variables.ts";

const setVariables = variableWrites[0] as unknown as TwoStep<{ path: string; set: { name: string }[] }>;

test("a preview names the variables whose services it has not looked up", async () => {
  const names = Array.from({ length: 23 }, (_, n) => `NAME_${n}`);
  const asked: string[] = [];
  const api = {
    at: { any: async () => ({ accountId: "acc_1", projectId: "prj_1" }) },
    all: async () => names.map((name) => ({ name, updatedAt: "2026-01-01T00:00:00Z" })),
    call: async (_: unknown, { variableName }: { variableName: string }) => {
      asked.push(variableName);
      return { services: [] };
    },
  } as unknown as Api;
  const of = (count: number) => ({ path: "shop", set: names.slice(0, count).map((name) => ({ name })) });
  const { shown } = await setVariables.preview(of(23), api);
  expect([...asked, ...(shown.reachNotLookedUp as string[])]).toEqual(names);
  expect((await setVariables.preview(of(20), api)).shown).not.toHaveProperty("reachNotLookedUp");
});
