import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { migratedDatabase } from "../../services/kit/testing/testing.ts";
import { type Bound, createConfirmations } from "./confirmations.ts";
import { sweepConfirmations } from "./sql.ts";

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await migratedDatabase();
  pool = createPool(database.url("gateway"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

const [key, newer] = [randomBytes(32), randomBytes(32)];
const bound: Bound = {
  caller: "machine usr_1 grt_1",
  tool: "scale",
  input: { service: "shop/production/web", replicas: 3 },
  state: { from: { replicas: 1, size: "nano" }, newest: undefined },
  asked: false,
};

test("any gateway takes what another has issued, also after the keys were rotated, and takes it once", async () => {
  const one = createConfirmations({ pool, keys: [key] });
  const other = createConfirmations({ pool, keys: [newer, key] });
  const text = one.issue(bound);
  // The order of members says nothing.
  const input = { replicas: 3, service: "shop/production/web" };
  const state = { newest: undefined, from: { size: "nano", replicas: 1 } };
  expect(other.refusalOf(text, { ...bound, input })).toBeUndefined();
  expect(other.changesOf(text, state)).toEqual([]);
  const used = await Promise.all([one, other, one].map((gateway) => gateway.use(text)));
  expect(used.filter((id) => id !== undefined)).toHaveLength(1);
  expect(createConfirmations({ pool, keys: [newer] }).refusalOf(text, bound)).toEqual({ why: "unreadable" });
});

test.each<[string, Partial<Bound>]>([
  ["caller", { caller: "machine usr_1 grt_2" }],
  ["arguments", { input: { ...bound.input, replicas: 4 } }],
  ["arguments", { input: { ...bound.input, more: null } }],
  ["arguments", { tool: "restart" }],
])("a confirmation is for its %s only", (why, other) => {
  const confirmations = createConfirmations({ pool, keys: [key] });
  expect(confirmations.refusalOf(confirmations.issue(bound), { ...bound, ...other })).toEqual({ why });
});

test("what was issued for the user's answer is not taken from the model", () => {
  const confirmations = createConfirmations({ pool, keys: [key] });
  const text = confirmations.issue({ ...bound, asked: true });
  expect(confirmations.refusalOf(text, bound)).toEqual({ why: "not_asked" });
  expect(confirmations.refusalOf(text, { ...bound, asked: true })).toBeUndefined();
});

test("each part of the state that changed is named, also one that is new or gone", () => {
  const confirmations = createConfirmations({ pool, keys: [key] });
  const text = confirmations.issue(bound);
  expect(confirmations.changesOf(text, { ...bound.state, newest: 2 })).toEqual(["newest"]);
  expect(confirmations.changesOf(text, { from: bound.state.from, live: 1 })).toEqual(["live"]);
});

test("a confirmation ends after ten minutes, and is forgotten only then", async () => {
  let ms = Date.now();
  const confirmations = createConfirmations({ pool, keys: [key], now: () => ms });
  const text = confirmations.issue(bound);
  await confirmations.use(text);
  await sweepConfirmations(pool, 100);
  expect(await confirmations.use(text)).toBeUndefined();
  ms += 600_001;
  expect(confirmations.refusalOf(text, bound)).toEqual({ why: "expired" });
});

test("a text that is none is refused, whatever it is", () => {
  const confirmations = createConfirmations({ pool, keys: [key] });
  const text = confirmations.issue(bound);
  const [body, mac] = text.split(".");
  for (const wrong of [
    "",
    ".",
    "x",
    `${body}.`,
    `.${mac}`,
    `${body}x.${mac}`,
    `${body}.${mac}`.toUpperCase(),
    "\0".repeat(9),
  ])
    expect(confirmations.refusalOf(wrong, bound)).toEqual({ why: "unreadable" });
});
