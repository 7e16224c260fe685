import { expect, test } from "vitest";
import { attemptKey, createTurns, network } from "./attempt-keys.ts";

test.each([
  ["203.0.113.7", "203.0.113.7"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["", ""],
])("failures of %s count for %s", (ip, counted) => {
  expect(network(ip)).toBe(counted);
});

test("two addresses of one IPv6 network share their failures, two e-mails do not", () => {
  const key = attemptKey("ada@example.com", "2001:db8:1:2::1");
  expect(attemptKey("ada@example.com", "2001:db8:1:2:ffff::")).toEqual(key);
  expect(attemptKey("ada@example.com", "2001:db8:1:3::1")).not.toEqual(key);
  expect(attemptKey("bob@example.com", "2001:db8:1:2::1")).not.toEqual(key);
});

test("work of one key runs one after the other, also after a failure, and keys do not wait for each other", async () => {
  const inTurn = createTurns();
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = inTurn("a", async () => {
    await gate.promise;
    order.push("a1");
    throw new Error("failed");
  });
  const second = inTurn("a", async () => void order.push("a2"));
  await inTurn("b", async () => void order.push("b1"));
  gate.resolve();
  await expect(first).rejects.toThrow("failed");
  await second;
  expect(order).toEqual(["b1", "a1", "a2"]);
});
