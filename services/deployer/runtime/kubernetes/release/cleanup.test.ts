import { expect, test } from "vitest";
import type { Kube } from "../../../kube/client.ts";
import { removeObjects } from "./cleanup.ts";

test("removal says which pods do not end, and on which node, instead of waiting for ever", async () => {
  const stuck = {
    metadata: { name: "app-1", uid: "u1" },
    spec: { nodeName: "node-7" },
    status: { phase: "Running" },
  };
  const removed: string[] = [];
  const kube = {
    list: async () => ({ items: [stuck], version: "1" }),
    listMetadata: async () => [],
    remove: async (_: unknown, name: string) => void removed.push(name),
  } as unknown as Kube;
  await expect(removeObjects(kube, "shop", "svc_1", { forMs: 250 })).rejects.toThrow(
    /svc_1 do not end: app-1 on node-7/,
  );
  expect(removed).toEqual(["app-1"]);
});
