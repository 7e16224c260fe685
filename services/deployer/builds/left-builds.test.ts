import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ReleaseVariablesSchema } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { createLog } from "../../kit/log.ts";
import { createPool, type Pool, transaction } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import type { Builder } from "../builder/port.ts";
import { accept, type DeploymentInput } from "../deployments/accept/accept.ts";
import { notifyReconcilers } from "../due/sql.ts";
import { deleteServices } from "../projects/delete-services.ts";
import { mergeConfig } from "../projects/service-config.ts";
import { insertService, lockService } from "../projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../projects/sql.ts";
import { type ReconcilerDeps, startServiceReconciler } from "../reconcile/reconciler.ts";
import { createSecrets } from "../secrets.ts";
import { imageArtifact } from "../terms/artifact.ts";
import { freePlan } from "../testing/testing.ts";
import { createEarlyVariables } from "../variables/early-variables.ts";

// What a process builds that stalled while others took its work. The builder is one of a cluster: its builds outlive
// their process and are resumed.

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
const caller: Caller = { kind: "user", id: "usr_test", ip: "127.0.0.1" };

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;
/** What the cluster holds: builds under way and what they were built into. */
const jobs = new Set<string>();
const images = new Set<string>();

beforeAll(async () => {
  database = await testDatabase(["deployer"]);
  pool = createPool(database.url("deployer"));
  await migrate(pool, join(import.meta.dirname, "../migrations"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

/** A deployer whose builds begin once `gate` is open, or at the last moment before they are left. */
function deployer(gate: Promise<void> = Promise.resolve(), asked: () => void = () => {}) {
  const builder: Builder = {
    resumes: true,
    async build({ buildId }, signal) {
      asked();
      const left = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
      await Promise.race([gate, left]).finally(() => jobs.add(buildId));
      jobs.delete(buildId);
      images.add(buildId);
      return { artifact: imageArtifact(buildId), runtime: "node" };
    },
    async discard({ buildId }) {
      jobs.delete(buildId);
      images.delete(buildId);
    },
    async removeArtifact() {},
    async removeCaches() {},
  };
  const runtime = {
    apply: async () => {},
    remove: async () => {},
    status: async () => undefined,
    list: async () => [],
    watch: () => () => {},
  };
  return startServiceReconciler({
    databaseUrl: database.url("deployer"),
    ...{ pool, log, builder, isBuiltImage: () => false, minReadySeconds: 0, buildsAtOnce: 2 },
    entitlementsOf: freePlan,
    secrets: createSecrets([Buffer.alloc(32, 1)]),
    early: createEarlyVariables(async () => create(ReleaseVariablesSchema, { fingerprint: "same" })),
    runtime: runtime as unknown as ReconcilerDeps["runtime"],
    store: { removePrefix: async () => {}, sweep: async () => 0 } as unknown as ReconcilerDeps["store"],
    addons: {} as ReconcilerDeps["addons"],
    addonServers: {
      ownServer: [],
      list: async () => [],
      watch() {},
    } as unknown as ReconcilerDeps["addonServers"],
  });
}

async function service() {
  const [accountId, projectId, environmentId, id] = ["acc", "prj", "env", "svc"].map((kind) => newId(kind));
  const path = { accountId: accountId!, projectId: projectId!, environmentId: environmentId! };
  await insertProject(pool, path.projectId, path.accountId, "shop");
  await insertEnvironment(pool, path.environmentId, path.accountId, path.projectId, "production");
  const config = mergeConfig("web", undefined, undefined);
  const made = { id: id!, ...path, name: "web", type: "web", source: {}, config, staged: false };
  await insertService(pool, { ...made, addonState: undefined });
  const deploy = (wanted: DeploymentInput) =>
    transaction(pool, async (tx) =>
      accept(
        tx,
        { caller, requestId: "req_test" },
        (await lockService(tx, { ...path, service: "web" }))!,
        wanted,
      ),
    );
  const remove = () => transaction(pool, (tx) => deleteServices(tx, "id", [id!], true, path));
  const isGone = async () => (await pool.query("select from services where id = $1", [id])).rowCount === 0;
  const state = async () =>
    (
      await pool.query<{ status: string; leftover: boolean }>(
        "select status, leftover from deployments where service_id = $1 order by version",
        [id],
      )
    ).rows;
  return { id: id!, deploy, remove, isGone, state };
}

const leaseRunsOut = (id: string) =>
  pool.query("update work set lease_until = now() - interval '1 second' where service_id = $1", [id]);

/** The lease is that of a process which no longer exists. */
async function ownerDies(id: string): Promise<void> {
  await pool.query("update work set lease_owner = 1 where service_id = $1", [id]);
  await notifyReconcilers(pool);
}

/** A deployer that stalls between moving a deployment to `building` and its build. */
async function stalledDeployer() {
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  const slow = await deployer(gate.promise, () => {
    asked++;
  });
  return { slow, goOn: gate.resolve, asked: async () => asked };
}

test("what was built for a deployment that others have superseded and cleaned up meanwhile is removed", async () => {
  const { slow, goOn, asked } = await stalledDeployer();
  const { id, deploy, state } = await service();
  const { buildId } = await deploy({ archiveRef: "arc" });
  await eventually("the slow one is about to build", asked);
  await leaseRunsOut(id);
  const swift = await deployer();
  await deploy({ artifact: imageArtifact("app"), image: "app" });
  await eventually("version 2 has replaced it, and it left nothing", async () => {
    const [one, two] = await state();
    return one!.status === "superseded" && !one!.leftover && two!.status === "applied";
  });
  goOn();
  await slow.stop();
  await eventually("what was built is removed", async () => !jobs.has(buildId!) && !images.has(buildId!));
  await swift.stop();
});

test("a build that is left by the last process that knows of it does not continue for a service that is deleted", async () => {
  const { slow, asked } = await stalledDeployer();
  const { id, deploy, remove, isGone } = await service();
  const { buildId } = await deploy({ archiveRef: "arc" });
  await eventually("the slow one is about to build", asked);
  await leaseRunsOut(id);
  const swift = await deployer();
  await remove();
  await eventually("the service is removed", isGone);
  await slow.stop();
  expect(jobs.has(buildId!)).toBe(false);
  await swift.stop();
});

test("slots are all processes' together, and one of a dead process is free once another has ended its build", async () => {
  const { slow, asked } = await stalledDeployer();
  const [one, two, three] = [await service(), await service(), await service()];
  for (const { deploy } of [one, two]) await deploy({ archiveRef: "arc" });
  await eventually("both slots are taken", async () => (await asked()) === 2);
  const swift = await deployer();
  await three.deploy({ archiveRef: "arc" });
  const image = await service();
  await image.deploy({ artifact: imageArtifact("app"), image: "app" });
  await eventually("others go on", async () => (await image.state())[0]!.status === "applied");
  expect((await three.state())[0]!.status).toBe("queued");

  await ownerDies(one.id);
  // Whichever process builds it: the slow one would never end.
  await eventually("the third begins", async () => (await three.state())[0]!.status !== "queued");
  expect(["built", "applied"]).toContain((await one.state())[0]!.status);
  expect((await two.state())[0]!.status).toBe("building");
  await swift.stop();
  await slow.stop();
});

test("a service is not forgotten while a build of it begins", async () => {
  const { deploy, remove, isGone } = await service();
  const { id, buildId } = await deploy({ archiveRef: "arc" });
  const beginning = await pool.connect();
  await beginning.query("begin");
  await beginning.query("update deployments set status = 'building', leftover = true where id = $1", [id]);
  await remove();
  const only = await deployer();
  await eventually("its removal waits", async () => {
    const { rowCount } = await pool.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rowCount! > 0;
  });
  jobs.add(buildId!);
  await beginning.query("commit");
  beginning.release();
  await eventually("the service is removed", isGone);
  expect(jobs.has(buildId!)).toBe(false);
  await only.stop();
});
