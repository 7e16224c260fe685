import { afterAll, beforeAll, expect, test } from "vitest";
import { program } from "../../services/deployer/addons/testing.ts";
import { busyApp, sumOf } from "../../services/deployer/metrics/testing.ts";
import { archiveOf } from "../../services/deployer/testing/testing.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { deployArchive, open, settled } from "../support/apps.ts";
import { openMachine } from "../support/cli.ts";
import { startWorld, type World } from "../support/world.ts";

type Metrics = Parameters<typeof sumOf>[0] & {
  step: number;
  unavailable: { name: string; message: string }[];
};

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world?.stop());

test("an app under load shows its requests and CPU, in the API and in a terminal", async () => {
  const { E, S } = await world.environment();
  const W = S("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web", config: { minReadySeconds: 0 } });
  const { version } = await deployArchive(world, W, await archiveOf(busyApp));
  await settled(world, W, version);
  const { url } = await world.must<{ url: string }>("GET", W);
  for (let n = 0; n < 30; n++) await open(url, n % 10 === 0 ? "/fail" : "/");
  const found = await eventually("all requests are counted", async () => {
    const metrics = await world.must<Metrics>("GET", `${W}/metrics?step=300`);
    return (sumOf(metrics, "requests") ?? 0) >= 30 && metrics;
  });
  expect(found.step).toBe(300);
  expect([sumOf(found, "status_2xx"), sumOf(found, "status_5xx")]).toEqual([27, 3]);
  expect(sumOf(found, "cpu")).toBeGreaterThan(0);
  expect(sumOf(found, "memory")).toBeGreaterThan(10_000_000);
  expect(found.unavailable.map(({ name }) => name)).toEqual(["network_in", "network_out"]);

  const machine = openMachine(world.processEnv);
  try {
    await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
    const [, project = "", environment = ""] = /projects\/(\w+)\/environments\/(\w+)$/.exec(E) ?? [];
    const shown = await machine.must(["metrics", "web", "-p", project, "-e", environment]);
    expect(shown).toMatch(/^SERIES +NEWEST +HIGHEST +EACH 1 MIN$/m);
    expect(shown).toMatch(/^requests +\d+ +\d+ /m);
    expect(shown).toMatch(/^memory +[\d.]+ MB /m);
  } finally {
    machine.remove();
  }
});

test("a database's storage and a cache's log are read in a terminal, and why a shared log is not", async () => {
  const { E, S } = await world.environment();
  const at = (name: string) => ({ name, type: name === "db" ? "postgres" : "redis" });
  for (const name of ["db", "cache"]) await world.must("POST", `${E}/services`, at(name));
  const machine = openMachine(world.processEnv);
  try {
    await machine.must(["login", world.origin, "--token", "-"], { input: `${world.ownerToken}\n` });
    const [, project = "", environment = ""] = /projects\/(\w+)\/environments\/(\w+)$/.exec(E) ?? [];
    const where = ["-p", project, "-e", environment];
    await eventually("the database is measured", async () => {
      const { stdout, stderr } = await machine.berth(["metrics", "db", ...where]);
      return (
        /^storage_used +[\d.]+ MB /m.test(stdout) && stderr.includes("cpu, memory, replicas, restarts: ")
      );
    });
    const refused = await machine.berth(["logs", "db", ...where]);
    expect(refused.stderr).toContain("statements of other accounts");
    if (!program) return;
    await eventually("the cache runs", async () => {
      return (await world.must<{ status: string }>("GET", S("cache"))).status === "running";
    });
    expect(await machine.must(["logs", "cache", ...where])).toContain("Ready to accept connections");
  } finally {
    machine.remove();
  }
});

test("what is asked of metrics wrongly is refused, and autoscaling on one machine with a sentence", async () => {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const reasons = async (query: string) => {
    type Refused = { error: { details: { path: string; reason: string }[] } };
    const { status, body } = await world.call<Refused>("GET", `${S("web")}/metrics?${query}`);
    return [status, ...body.error.details.map(({ path, reason }) => `${path} ${reason}`)];
  };
  expect(await reasons("step=10")).toEqual([422, "step out_of_range"]);
  expect(await reasons("step=many")).toEqual([422, expect.stringContaining("step")]);
  expect(await reasons("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z")).toEqual([
    422,
    "from out_of_range",
  ]);
  expect((await world.call("GET", `${S("none")}/metrics`)).status).toBe(404);
  const config = { autoscaling: { max: 3 } };
  const refused = await world.call<{ error: { message: string } }>("PATCH", S("web"), { config });
  expect([refused.status, JSON.stringify(refused.body)]).toEqual([
    422,
    expect.stringContaining("needs a cluster"),
  ]);
});
