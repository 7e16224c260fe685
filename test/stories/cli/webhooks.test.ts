import { Webhook as Verifier } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { type Receiver, startReceiver } from "../../../services/notifications/webhooks/testing.ts";
import { type Machine, openMachine } from "../../support/cli.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let receiver: Receiver;
let machine: Machine;

beforeAll(async () => {
  [world, receiver] = await Promise.all([startWorld({ WEBHOOKS_PRIVATE: "on" }), startReceiver()]);
  machine = openMachine({ BERTH_URL: world.origin, BERTH_TOKEN: world.ownerToken });
});
afterAll(async () => {
  machine?.remove();
  await receiver?.stop();
  await world?.stop();
});

test("an owner adds a webhook, tries it, sends a delivery again, replaces its secret and removes it", async () => {
  const url = `${receiver.base}/hook`;
  const { must, berth } = machine;
  const secret = (await must(["webhooks", "add", url, "--event", "deploy.*"])).trim();
  expect(await must(["webhooks"])).toMatch(
    /URL +EVENTS +STATE +ID\nhttp:\S+\/hook +deploy\.\* +enabled +whk_\S+\n/,
  );
  expect(await must(["webhooks", "--json"])).not.toContain(secret);
  await must(["webhooks", "test", url]);
  const [first] = await receiver.arrived("/hook");
  expect(new Verifier(secret).verify(first!.body, first!.headers as Record<string, string>)).toMatchObject({
    type: "webhook.test",
  });
  const row = await eventually("it is recorded as delivered", async () =>
    /webhook\.test +delivered +204 +1 +\d+ s ago +(\S+)/.exec(await must(["webhooks", "deliveries", url])),
  );
  expect(await must(["webhooks", "deliveries", url, "--failed"])).not.toContain("webhook.test");
  await must(["webhooks", "replay", url, row[1]!]);
  await receiver.arrived("/hook", 2);

  const renewed = (await must(["webhooks", "rotate", url])).trim();
  expect(renewed).toMatch(/^whsec_/);
  expect(renewed).not.toBe(secret);
  await must(["webhooks", "disable", url]);
  expect(await must(["webhooks"])).toContain("disabled: requested");
  await must(["webhooks", "enable", url]);

  const asked = await berth(["webhooks", "remove", url]);
  expect([asked.code, asked.stdout]).toEqual([2, ""]);
  await must(["webhooks", "remove", url, "--yes"]);
  const gone = await berth(["webhooks", "test", url]);
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("berth webhooks")]);
  expect(JSON.parse(await must(["webhooks", "--json"]))).toEqual({ data: [] });
});
