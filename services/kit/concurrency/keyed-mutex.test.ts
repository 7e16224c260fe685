import { expect, test } from "vitest";
import { createKeyedMutex } from "./keyed-mutex.ts";

test("work of one key runs one after the other, also after a failure, and keys do not wait for each other", async () => {
  const mutex = createKeyedMutex();
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = mutex.run("a", async () => {
    await gate.promise;
    order.push("a1");
    throw new Error("failed");
  });
  const second = mutex.run("a", async () => void order.push("a2"));
  await mutex.run("b", async () => void order.push("b1"));
  const settled = mutex.settled().then(() => order.push("settled"));
  gate.resolve();
  await expect(first).rejects.toThrow("failed");
  await second;
  await settled;
  expect(order).toEqual(["b1", "a1", "a2", "settled"]);
});
