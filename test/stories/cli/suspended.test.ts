import { afterAll, beforeAll, expect, test } from "vitest";
import { SuspensionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { openEvents } from "../../../services/kit/testing/events.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { hasTerminals, type Machine, openMachine } from "../../support/cli.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let machine: Machine;

beforeAll(async () => {
  world = await startWorld({ DEFAULT_TIER: "free", PLAN_QUOTAS: "off" });
  machine = openMachine({ BERTH_URL: world.origin, BERTH_TOKEN: world.ownerToken });
});
afterAll(async () => {
  machine?.remove();
  await world?.stop();
});

test("status says in full why a service is suspended, and how it starts again", async () => {
  await machine.must(["init", "shop"]);
  await machine.must(["services", "create", "jobs", "--type", "worker"]);
  for (const service of ["web", "jobs"]) await machine.must(["scale", "2", "-s", service]);
  const events = await openEvents(world.nats.url);
  await events.publish("billing", SuspensionChangedSchema, world.accountId, {
    accountId: world.accountId,
    reason: "free_plan",
    revision: 1n,
  });
  await events.close();
  const listed = await eventually("both are suspended", async () => {
    const { data } = JSON.parse(await machine.must(["status", "--json"]));
    return data.every(({ suspended }: { suspended?: string }) => suspended === "free_plan") && data;
  });
  const reason = listed[0].statusMessage;
  expect(reason).toContain("It starts again when an owner subscribes.");
  const shown = await machine.berth(["status"]);
  for (const service of ["web", "jobs"]) expect(shown.stderr).toContain(`  ${service}: ${reason}\n`);
  expect(shown.stdout).toMatch(/^jobs +worker +\S+ +–$/m);
  if (!hasTerminals) return;
  const { stdout } = await machine.inTerminal(["status"]).ended;
  for (const service of ["web", "jobs"]) expect(stdout).toContain(`${service}: ${reason}`);
});
