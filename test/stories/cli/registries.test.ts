import { afterAll, beforeAll, expect, test } from "vitest";
import { type Machine, openMachine } from "../../support/cli.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let machine: Machine;

beforeAll(async () => {
  world = await startWorld();
  machine = openMachine({ BERTH_URL: world.origin, BERTH_TOKEN: world.ownerToken });
});
afterAll(async () => {
  machine?.remove();
  await world?.stop();
});

test("an owner stores the login for a registry, replaces its token and deletes it, and sees no token", async () => {
  const { must, berth } = machine;
  const add = ["registries", "add", "GHCR.io", "--user", "shop"];
  const added = await must(add, { input: "first-token\n" });
  expect(added).toBe("");
  expect(await must(["registries"])).toMatch(/REGISTRY +USER +TOKEN SET\nghcr\.io +shop +\d+ s ago\n/);
  await must(["registries", "rotate", "ghcr.io", "--user", "ci"], { input: "second-token\n" });
  expect(await must(["registries", "--json"])).not.toMatch(/-token/);
  expect(JSON.parse(await must(["registries", "--json"])).data).toMatchObject([
    { host: "ghcr.io", user: "ci" },
  ]);
  const nobody = await berth(["registries", "add", "quay.io"]);
  expect(nobody.stderr).toContain("--user");
  const asked = await berth(["registries", "remove", "ghcr.io"]);
  expect([asked.code, asked.stdout]).toEqual([2, ""]);
  await must(["registries", "remove", "ghcr.io", "--yes"]);
  expect(JSON.parse(await must(["registries", "--json"]))).toEqual({ data: [] });
});
