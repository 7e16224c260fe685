import { utimes } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { readConfig } from "../../kit/process/config.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { serviceClient } from "../../kit/rpc/client.ts";
import { eventually, testKeys } from "../../kit/testing/testing.ts";
import { createAddons } from "../addons/lifecycle.ts";
import { defaultBuildLimits } from "../builder/port.ts";
import { fields } from "../config.ts";
import { accept } from "../deployments/accept/accept.ts";
import { type Engine, startLocalEngine } from "../engine/local.ts";
import { mergeConfig } from "../projects/service-config.ts";
import { insertService, lockService, type ServicePath } from "../projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../projects/sql.ts";
import { startServiceReconciler } from "../reconcile/reconciler.ts";
import type { Runtime } from "../runtime/port.ts";
import { createSecrets, type Secrets } from "../secrets.ts";
import { archiveOf, exampleApp, freePlan, startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { createEarlyVariables } from "../variables/early-variables.ts";
import { createVariablesResolver, type ResolveVariables } from "../variables/variables-client.ts";

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
const caller: Caller = { kind: "user", id: "usr_test", ip: "127.0.0.1" };

let platform: TestPlatform;
let pool: Pool;
let secrets: Secrets;
let engine: Engine;
let artifact: string;
let openResolve: ResolveVariables;

beforeAll(async () => {
  platform = await startTestPlatform();
  pool = platform.pool;
  const config = readConfig(platform.env, fields);
  await migrate(pool, join(import.meta.dirname, "../migrations"));
  secrets = createSecrets(config.secretKeys);
  engine = await startLocalEngine(config, secrets, log);
  const variables = { url: config.variablesUrl, keys: testKeys, name: "deployer" };
  openResolve = createVariablesResolver(serviceClient(InternalService, variables));
  artifact = await buildExample();
});
afterAll(async () => {
  await engine?.stop();
  await platform?.stop();
});

/** Something that all services of this file run. */
async function buildExample(): Promise<string> {
  const key = "archives/svc_example/arc_example";
  await engine.store.put(key, await archiveOf(await exampleApp("node")), "application/gzip");
  const request = {
    buildId: "bld_example",
    serviceId: "svc_example",
    accountId: "acc_1",
    type: "web" as const,
    source: { kind: "archive" as const, key },
    limits: defaultBuildLimits,
    port: 8080,
    timeoutMs: 60_000,
    onStage() {},
    log() {},
  };
  return (await engine.builder.build(request, AbortSignal.timeout(60_000))).artifact;
}

/** A reconciler of its own on the shared database and runtime; `applied` collects what it applies. */
function reconciler(applied: string[], resolve: ResolveVariables = openResolve) {
  const runtime: Runtime = {
    ...engine.runtime,
    async apply(release) {
      await engine.runtime.apply(release);
      applied.push(`${release.serviceId} ${release.version}`);
    },
  };
  const addons = createAddons({ pool, secrets, servers: engine.addonServers, log });
  const databaseUrl = platform.env.DATABASE_URL!;
  const deps = { ...engine, runtime, databaseUrl, pool, addons, secrets, log };
  const early = createEarlyVariables(resolve);
  return startServiceReconciler({ ...deps, early, entitlementsOf: freePlan, buildsAtOnce: 2 });
}

/** Inserts a service with its project and environment. Returns its path and id. */
async function service(): Promise<ServicePath & { id: string }> {
  const [accountId, projectId, environmentId, id] = ["acc", "prj", "env", "svc"].map((kind) => newId(kind));
  const path = { accountId: accountId!, projectId: projectId!, environmentId: environmentId! };
  await insertProject(pool, path.projectId, path.accountId, "shop");
  await insertEnvironment(pool, path.environmentId, path.accountId, path.projectId, "production");
  const config = mergeConfig("web", undefined, undefined);
  const made = { id: id!, ...path, name: "web", type: "web", source: {}, config };
  await insertService(pool, { ...made, staged: false, addonState: undefined });
  return { ...path, service: "web", id: id! };
}

const deploy = (path: ServicePath) =>
  transaction(pool, async (tx) =>
    accept(tx, { caller, requestId: "req_test" }, (await lockService(tx, path))!, { artifact }),
  );

const statuses = async (id: string) =>
  (
    await pool.query<{ version: number; status: string }>(
      "select version, status from deployments where service_id = $1 order by version",
      [id],
    )
  ).rows;

test("two deployers that race apply each deployment once, never an older one after a newer, and the newest always", async () => {
  const applied: string[] = [];
  const both = [await reconciler(applied), await reconciler(applied)];
  const services = await Promise.all([1, 2, 3].map(service));
  await Promise.all(
    services.map(async (path) => {
      for (let n = 0; n < 8; n++) await Promise.all([deploy(path), deploy(path)]);
    }),
  );
  for (const { id } of services) {
    const found = await eventually("all deployments have ended", async () => {
      const now = await statuses(id);
      return now.every((one) => one.status === "applied" || one.status === "superseded") && now;
    });
    expect(found.map((one) => one.version)).toEqual(Array.from({ length: 16 }, (_, n) => n + 1));
    expect(found.at(-1)!.status).toBe("applied");
    const ended = found.filter((one) => one.status === "applied").map((one) => `${id} ${one.version}`);
    expect(applied.filter((one) => one.startsWith(id))).toEqual(ended);
    const events = await pool.query("select from outbox where subject like '%DeploymentApplied.' || $1", [
      services.find((one) => one.id === id)!.accountId,
    ]);
    expect(events.rowCount).toBe(ended.length);
    expect((await engine.runtime.status(id))?.version).toBe(16);
  }
  await Promise.all(both.map((one) => one.stop()));
});

test("a deployer that was suspended while another took over applies nothing when it resumes", async () => {
  const [slowly, swiftly]: [string[], string[]] = [[], []];
  let goOn = () => {};
  let asked = false;
  const gate = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const slow = await reconciler(slowly, async (id) => {
    asked = true;
    await gate;
    return openResolve(id);
  });
  const path = await service();
  await deploy(path);
  await eventually("the slow one has begun to apply", async () => asked);
  // Its lease runs out, as it would without a sign of life for a minute.
  await pool.query("update work set lease_until = now() - interval '1 second' where service_id = $1", [
    path.id,
  ]);
  const swift = await reconciler(swiftly);
  await eventually("version 1 is applied", async () => swiftly.length === 1);
  await deploy(path);
  await eventually("version 2 is applied", async () => swiftly.length === 2);
  goOn();
  await slow.stop();
  expect(slowly).toEqual([]);
  expect(swiftly).toEqual([`${path.id} 1`, `${path.id} 2`]);
  expect(await statuses(path.id)).toEqual([
    { version: 1, status: "applied" },
    { version: 2, status: "applied" },
  ]);
  await swift.stop();
});

test("a release of a service that does not exist is stopped when a deployer starts", async () => {
  const applied: string[] = [];
  const path = await service();
  const first = await reconciler(applied);
  await deploy(path);
  await eventually("it is applied", async () => applied.length === 1);
  await first.stop();
  await pool.query("delete from deployments where service_id = $1", [path.id]);
  await pool.query("delete from services where id = $1", [path.id]);
  const second = await reconciler(applied);
  await eventually("it is ended", async () => (await engine.runtime.status(path.id)) === undefined);
  await second.stop();
});

test("a deployer whose connections to the database break recovers", async () => {
  const applied: string[] = [];
  const path = await service();
  const only = await reconciler(applied);
  await deploy(path);
  await eventually("version 1 is applied", async () => applied.length === 1);
  await pool.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );
  await deploy(path);
  await eventually("version 2 is applied", async () => applied.length === 2);
  await only.stop();
});

test("an upload nobody deployed is removed after a day, and a younger one is kept", async () => {
  const [old, young] = ["archives/svc_a/arc_old", "archives/svc_a/arc_young"];
  for (const key of [old, young]) await engine.store.put(key, Buffer.from("x"), "application/gzip");
  const file = join(platform.dataDir, "store/objects", old.replaceAll("/", "+"));
  const then = new Date(Date.now() - 27 * 3_600_000);
  await utimes(file, then, then);
  const only = await reconciler([]);
  await eventually("it is removed", async () => (await engine.store.stat(old)) === undefined);
  expect(await engine.store.stat(young)).toBeDefined();
  await only.stop();
});

test("a live release that the runtime lost is applied again when a deployer starts", async () => {
  const applied: string[] = [];
  const path = await service();
  const first = await reconciler(applied);
  await deploy(path);
  await eventually("it is applied", async () => applied.length === 1);
  await first.stop();
  await engine.runtime.remove(path.id);
  const second = await reconciler(applied);
  await eventually("it runs again", async () => (await engine.runtime.status(path.id))?.state === "running");
  expect(applied).toEqual([`${path.id} 1`, `${path.id} 1`]);
  expect(await statuses(path.id)).toEqual([{ version: 1, status: "applied" }]);
  await second.stop();
});
