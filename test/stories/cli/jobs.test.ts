import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { type Machine, openMachine } from "../../support/cli.ts";
import { openPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
let machine: Machine;
const project = `jobs-${Math.random().toString(36).slice(2, 8)}`;

beforeAll(async () => {
  world = await openPlatform();
  machine = openMachine(world.processEnv);
  await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
});

afterAll(async () => {
  await machine?.berth(["projects", "delete", project, "--yes"]);
  machine?.remove();
  await world?.stop();
});

test("a nightly job is set up, run now and looked at; a command runs beside it, with its exit code", async () => {
  machine.write({
    "package.json": `{"scripts":{"start":"node report.js"}}`,
    "report.js": `console.log("reported")`,
  });
  const init = ["init", project, "--account", world.accountId, "--type", "cron", "--schedule", "30 2 * * *"];
  await machine.must(init);
  await machine.must(["up"]);
  const scheduled = await machine.berth(["jobs", "schedule", "@daily", "--time-zone", "Europe/Berlin"]);
  expect([scheduled.code, scheduled.stderr]).toEqual([
    0,
    expect.stringContaining("The next run of cron is at"),
  ]);
  expect((await machine.berth(["status"])).stderr).toContain("next run at");

  expect(await machine.must(["jobs", "run"])).toContain("reported");
  expect((await machine.berth(["status"])).stderr).toContain("the last one: succeeded");
  const failing = await machine.berth(["jobs", "run", "--", "echo 'of my own'; exit 5"]);
  expect([failing.code, failing.stdout]).toEqual([5, "of my own\n"]);
  expect(await machine.must(["jobs", "run", "--", "echo", "two  words", "$HOME"])).toBe("two  words $HOME\n");
  expect(await machine.must(["jobs", "logs"])).toBe("two  words $HOME\n");
  const slow = await machine.berth(["jobs", "run", "--timeout", "1s", "--", "sleep 600"]);
  expect([slow.code, slow.stderr]).toEqual([1, expect.stringContaining("longer than 1 second")]);

  await machine.must(["jobs", "run", "--detach", "--", "sleep 600"]);
  await machine.must(["jobs", "cancel"]);
  await eventually("the list shows it", async () => /sleep 600/.test(await machine.must(["jobs"])));
  expect(await machine.must(["jobs"])).toMatch(
    /canceled[\s\S]*timed_out[\s\S]*failed \(5\)[\s\S]*\(start command\)/,
  );
  const refused = await machine.berth(["jobs", "schedule", "every day"]);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("five fields")]);
});
