import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newId } from "../kit/ids.ts";
import { eventually } from "../kit/testing.ts";
import { startedOf } from "./runtime/processes.ts";
import {
  actAs,
  archiveOf,
  exampleApp,
  refused,
  type Surroundings,
  startSurroundings,
  visit,
} from "./testing.ts";

let around: Surroundings;
let child: ChildProcess | undefined;
let output = "";

beforeAll(async () => {
  around = await startSurroundings();
});
afterEach(() => end("SIGTERM"));
afterAll(async () => {
  await end("SIGKILL");
  await around?.stop();
});

/** Starts the deployer as an operator does, and waits until it is ready. */
async function run(): Promise<void> {
  child = spawn(process.execPath, [join(import.meta.dirname, "main.ts")], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...around.env, LOG_LEVEL: "debug" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (part) => (output += part));
  await eventually("the deployer is ready", () =>
    fetch(`http://127.0.0.1:${around.port}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    ),
  );
}

async function end(signal: NodeJS.Signals): Promise<number | null> {
  const ending = child;
  child = undefined;
  if (!ending || ending.exitCode !== null) return null;
  const exited = once(ending, "exit");
  ending.kill(signal);
  return (await exited)[0];
}

async function webService() {
  const acting = actAs(around.port, newId("acc"));
  const environment = await acting.environment();
  const { id } = await acting.catalog.createService({ ...environment, name: "web", type: "web" });
  return { ...acting, environment, id, path: environment.at("web") };
}

/** An app whose build goes on only once the file `go` exists. */
async function slowApp(go: string): Promise<Buffer> {
  const manifest = { name: "slow", scripts: { build: "sh build.sh", start: "node server.js" } };
  return archiveOf({
    ...(await exampleApp("node")),
    "package.json": JSON.stringify(manifest),
    "build.sh": `while [ ! -e ${go} ]; do sleep 0.05; done; echo went on`,
  });
}

const statuses = async (serviceId: string) =>
  (
    await around.pool.query<{ status: string }>(
      "select status from deployments where service_id = $1 order by version",
      [serviceId],
    )
  ).rows.map((row) => row.status);

test("killed while a deployment is queued: the next start builds and applies it", async () => {
  await run();
  const { path, id, until, untilService, deployArchive } = await webService();
  const open = around.variables.hold();
  around.variables.set(id, [{ name: "GREETING", value: "Good morning" }]);
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  await end("SIGKILL");
  expect(await statuses(id)).toEqual(["queued"]);
  open();
  await run();
  await until(path, 1, "applied");
  expect((await visit((await untilService(path, "running")).url!)).text).toMatch(/^Good morning/);
});

test("killed while it builds: the next start builds again under the same deployment, with one clean log", async () => {
  await run();
  const { path, id, until, untilService, deployArchive, deployments } = await webService();
  const go = join(around.dataDir, `go-${id}`);
  const { id: deploymentId, buildId } = await deployArchive(path, await slowApp(go));
  await eventually("the builder is at work", async () => {
    const { buildStage } = await deployments.getDeployment({ ...path, version: 1 });
    return buildStage === "Building image";
  });
  await end("SIGKILL");
  await writeFile(go, "");
  await run();
  const applied = await until(path, 1, "applied");
  expect([applied.id, applied.buildId]).toEqual([deploymentId, buildId]);
  await untilService(path, "running");
  const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
  expect(logs.split("went on").length - 1).toBe(1);
  expect((await deployments.listDeployments(path)).data).toHaveLength(1);
});

test("killed while it applies: the next start applies it", async () => {
  await run();
  const { path, id, until, untilService, deployArchive } = await webService();
  const go = join(around.dataDir, `go-${id}`);
  await deployArchive(path, await slowApp(go));
  await until(path, 1, "building");
  const open = around.variables.hold();
  await writeFile(go, "");
  await until(path, 1, "built");
  await eventually("it has begun to apply", async () => {
    const found = await around.pool.query(
      "select from deployments where service_id = $1 and apply_started_at is not null",
      [id],
    );
    return found.rowCount === 1;
  });
  await end("SIGKILL");
  open();
  await run();
  await until(path, 1, "applied");
  await untilService(path, "running");
});

test("killed while it rolls back: the next start runs the earlier version, once", async () => {
  await run();
  const { path, id, until, deployArchive, deployments, service } = await webService();
  for (const edition of ["one", "two"]) {
    const index = { "index.html": edition };
    const { version } = await deployArchive(path, await archiveOf(index));
    await eventually("it is live", async () => {
      const { healthyAt } = await deployments.getDeployment({ ...path, version });
      return healthyAt !== undefined;
    });
  }
  const open = around.variables.hold();
  await deployments.rollback({ ...path, version: 1 });
  await end("SIGKILL");
  open();
  await run();
  await until(path, 3, "applied");
  await eventually("it runs", async () => {
    const { liveVersion, url } = await service(path);
    return liveVersion === 3 && (await visit(url!)).text.includes("one");
  });
  expect(await statuses(id)).toEqual(["applied", "applied", "applied"]);
});

test("killed while a service is deleted: the next start removes the rest", async () => {
  await run();
  const { path, until, deployArchive, catalog } = await webService();
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  await until(path, 1, "applied");
  await Promise.all([catalog.deleteService({ ...path, confirmImpact: true }).then(() => end("SIGKILL"))]);
  await run();
  await eventually("it is gone", () =>
    refused(catalog.getService(path)).then(
      (said) => said === "404 not_found",
      () => false,
    ),
  );
});

test("an app that runs goes on when the deployer is killed, is taken over by the next, and ends at SIGTERM", async () => {
  await run();
  const { path, deployArchive, untilService, service } = await webService();
  const files = {
    ...(await exampleApp("node")),
    "server.js":
      "require('node:http').createServer((q, r) => r.end(String(process.pid))).listen(process.env.PORT)",
  };
  await deployArchive(path, await archiveOf(files));
  const url = (await untilService(path, "running")).url!;
  const { text: pid } = await visit(url);
  await end("SIGKILL");
  await run();
  await eventually("it answers again", async () => (await visit(url)).text === pid);
  expect((await service(path)).status).toBe("running");
  expect(await end("SIGTERM")).toBe(0);
  expect(startedOf(Number(pid))).toBeUndefined();
  await run();
  await eventually("it is started again", async () => {
    const answer = await visit(url);
    return answer.status === 200 && answer.text !== pid;
  });
});

test("killed at ten random moments of deploys and changes: every deployment ends, and nothing is left over", async () => {
  await run();
  const acting = actAs(around.port, newId("acc"));
  const { accountId, catalog, deployments } = acting;
  const environment = await acting.environment();
  const paths = ["one", "two"].map(environment.at);
  for (const { service: name } of paths)
    await catalog.createService({ ...environment, name, type: "web", config: { minReadySeconds: 0 } });
  const files = await exampleApp("node");
  for (let round = 0; round < 10; round++) {
    for (const path of paths) {
      await acting.deployArchive(path, await archiveOf({ ...files, round: String(round) }));
      const { id } = await acting.service(path);
      around.variables.set(id, [{ name: "GREETING", value: `round ${round}` }]);
      await around.variables.changed(accountId, "service", id);
    }
    await delay(randomInt(1_000)); // the random moment
    await end("SIGKILL");
    await run();
  }
  for (const path of paths) {
    const { url } = await eventually("it runs its newest version", async () => {
      const found = await acting.service(path);
      return found.status === "running" && found.liveVersion === 10 && found;
    });
    await eventually("with its newest variables", async () => /^round 9/.test((await visit(url!)).text));
    const { data } = await deployments.listDeployments({ ...path, limit: 100 });
    expect(data.map((one) => one.version)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    const others = data.filter((one) => one.status !== "applied").map((one) => one.status);
    expect(others.every((status) => status === "superseded")).toBe(true);
  }
  await eventually("only what runs or can be rolled back to is kept", async () => {
    const { rows } = await around.pool.query<{ buildId: string }>(
      `select d.build_id as "buildId" from deployments d join services s on s.id = d.service_id
       where d.status = 'applied' and d.build_id is not null and (d.version = s.live_version or d.healthy_at is not null
         and (select count(*) from deployments n where n.service_id = d.service_id
           and n.healthy_at is not null and n.version > d.version) < 5)`,
    );
    const kept = rows.map((row) => row.buildId).sort();
    const built = (await readdir(join(around.dataDir, "artifacts"))).sort();
    return isDeepStrictEqual(built, kept);
  });
});

test("no value of a sensitive variable reaches the deployer's own output", async () => {
  const marker = `marker-${newId("x")}`;
  await run();
  const { path, id, deployArchive, untilService } = await webService();
  around.variables.set(id, [{ name: "GREETING", value: marker, sensitive: true }]);
  await deployArchive(path, await archiveOf(await exampleApp("node")));
  const url = (await untilService(path, "running")).url!;
  expect((await visit(url)).text).toContain(marker);
  expect(output).toContain("applied");
  expect(output).not.toContain(marker);
});
