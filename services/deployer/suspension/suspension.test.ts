import { afterAll, beforeAll, expect, test } from "vitest";
import { SuspensionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { echo, environmentAt } from "../releases/testing.ts";
import {
  actAs,
  archiveOf,
  FREE_PLAN,
  startTestPlatform,
  type TestPlatform,
  visit,
} from "../testing/testing.ts";
import { type DeployerProcess, deployerProcess } from "../testing/testing-process.ts";

const SUSPENDED = "403 compute_suspended";

let berth: TestPlatform;
let deployer: DeployerProcess;
beforeAll(async () => {
  berth = await startTestPlatform();
  deployer = deployerProcess({ ...berth, env: { ...berth.env, ...FREE_PLAN } });
  await deployer.run();
});
afterAll(async () => {
  await deployer?.end("SIGTERM");
  await berth?.stop();
});

const report = (accountId: string, reason: string, revision: number) =>
  berth.variables.publish(SuspensionChangedSchema, accountId, {
    accountId,
    reason,
    revision: BigInt(revision),
  });

/** An account with these services, running. */
async function account(services: Record<string, object>) {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  const archive = await archiveOf(echo);
  for (const [name, config] of Object.entries(services)) {
    await acting.catalog.createService({ ...environment, name, type: "web", config });
    await acting.deployArchive(environment.at(name), archive);
  }
  for (const name of Object.keys(services)) await acting.untilService(environment.at(name), "running");
  /** Which services are suspended, and why. */
  const suspended = async () => {
    const { data } = await acting.catalog.listServices(environment);
    return Object.fromEntries(data.flatMap((each) => (each.suspended ? [[each.name, each.suspended]] : [])));
  };
  const untilSuspended = (expected: Record<string, string>) =>
    eventually(`suspended are ${JSON.stringify(expected)}`, async () => {
      const found = await suspended();
      return JSON.stringify(Object.entries(found).sort()) === JSON.stringify(Object.entries(expected).sort());
    });
  return { ...acting, environment, at: environment.at, suspended, untilSuspended };
}

test("services beyond the allowance are stopped and refused, one stays; then all have their replicas again", async () => {
  const own = await account({ small: {}, large: { replicas: 2 } });
  const stranger = await account({ other: { replicas: 2 } });
  const { catalog, deployments, at, accountId } = own;
  await report(accountId, "free_plan", 3);
  await own.untilSuspended({ large: "free_plan" });
  const stopped = await own.untilService(at("large"), "stopped");
  expect(stopped).toMatchObject({ suspended: "free_plan" });
  expect(stopped.config?.replicas).toBe(2);
  expect(stopped.statusMessage).toContain("starts again when an owner subscribes");
  expect((await visit(stopped.url!)).status).toBe(503);
  expect((await own.service(at("small"))).status).toBe("running");

  const problem = await refusal(deployments.deploy(at("large")));
  expect(problem).toMatchObject({ code: "compute_suspended", context: { suspended: "free_plan" } });
  expect(problem.message).toContain(`POST /accounts/${accountId}/subscription`);
  expect(await refused(catalog.restartService(at("large")))).toBe(SUSPENDED);
  expect(await refused(catalog.updateService({ ...at("large"), config: { replicas: 3 } }))).toBe(SUSPENDED);
  expect(await refused(catalog.updateService({ ...at("small"), config: { size: "small" } }))).toBe(SUSPENDED);
  const dry = await own.tryOut.deploy(at("large"));
  expect([dry.eligible, dry.refusal?.code]).toEqual([false, "compute_suspended"]);
  const made = await catalog.createService({ ...own.environment, name: "third", type: "web" });
  expect(made.status).toBe("pending");
  expect(await refused(own.deployArchive(at("third"), await archiveOf(echo)))).toBe(SUSPENDED);
  // What the allowance pays goes on as before, and what is stopped may become smaller.
  expect((await deployments.deploy(at("small"))).version).toBe(2);
  await own.until(at("small"), 2, "applied");
  await catalog.updateService({ ...at("large"), config: { env: { COLOUR: "blue" } } });
  expect(await stranger.suspended()).toEqual({});
  expect((await stranger.service(stranger.at("other"))).status).toBe("running");

  // An older report changes nothing, a newer one brings all back.
  await report(accountId, "", 2);
  await report(accountId, "spend_limit", 4);
  await own.untilSuspended({ large: "spend_limit", third: "spend_limit" });
  await report(accountId, "", 5);
  await own.untilSuspended({});
  const back = await own.untilService(at("large"), "running");
  expect(back.config?.replicas).toBe(2);
  const pids = async () => (await environmentAt(back.url!)).PORT;
  const ports = new Set(await Promise.all(Array.from({ length: 8 }, pids)));
  expect(ports.size).toBe(2);
});

test("a stopped service that is made small enough takes the place of the one that ran, once that is gone", async () => {
  const own = await account({ first: {}, second: { replicas: 2 } });
  await report(own.accountId, "spend_limit", 1);
  await own.untilService(own.at("second"), "stopped");
  await own.catalog.updateService({ ...own.at("second"), config: { replicas: 1 } });
  expect(await own.suspended()).toEqual({ second: "spend_limit" });
  await own.catalog.deleteService({ ...own.at("first"), confirmImpact: true });
  await own.catalog.restartService(own.at("second"));
  await own.untilService(own.at("second"), "running");
  expect(await own.suspended()).toEqual({});
});

test.each(["kept", "lost"] as const)(
  "killed when services are stopped, and the change is %s: they are, and start again",
  async (outcome) => {
    const own = await account({ large: { replicas: 2 } });
    const held = await holdCommits(berth, "update", "services", "new.suspended is not null");
    await report(own.accountId, "free_plan", 1);
    await held.reached();
    await deployer.end("SIGKILL");
    await held.release(outcome);
    await deployer.run();
    await own.untilService(own.at("large"), "stopped");
    expect(await own.suspended()).toEqual({ large: "free_plan" });
    await report(own.accountId, "", 2);
    await own.untilService(own.at("large"), "running");
  },
);

test("what a deployer of the version before ignored takes effect when billing repeats it", async () => {
  const own = await account({ large: { replicas: 2 } });
  await report(own.accountId, "free_plan", 7);
  await own.untilService(own.at("large"), "stopped");
  // As if that had taken the report: the account is unchanged, and the service runs.
  await berth.pool.query("update accounts set suspended = null, suspension_revision = 0 where id = $1", [
    own.accountId,
  ]);
  await berth.pool.query("update services set suspended = null where account_id = $1", [own.accountId]);
  await berth.pool.query(
    "update work set next_at = now() where service_id in (select id from services where account_id = $1)",
    [own.accountId],
  );
  await own.untilService(own.at("large"), "running");
  await report(own.accountId, "free_plan", 7);
  await own.untilService(own.at("large"), "stopped");
});
