import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InternalService } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { createLog } from "../../../kit/log.ts";
import { transaction } from "../../../kit/postgres/db.ts";
import { migrate } from "../../../kit/postgres/migrate.ts";
import { readConfig } from "../../../kit/process/config.ts";
import { serviceClient } from "../../../kit/rpc/client.ts";
import { eventually, testKeys } from "../../../kit/testing/testing.ts";
import { fields } from "../../config.ts";
import { enqueue } from "../../due/sql.ts";
import { type Engine, startLocalEngine } from "../../engine/local.ts";
import * as kinds from "../../kube/kinds.ts";
import { nameOf } from "../../kube/names.ts";
import { deleteServices } from "../../projects/delete-services.ts";
import { mergeConfig } from "../../projects/service-config.ts";
import { serviceStatus } from "../../projects/service-status.ts";
import { findService, insertService } from "../../projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../../projects/sql.ts";
import { startServiceReconciler } from "../../reconcile/reconciler.ts";
import { createSecrets, type Secrets } from "../../secrets.ts";
import { ADDON_TYPES, type AddonType } from "../../terms/services.ts";
import { freePlan, startTestPlatform, type TestPlatform } from "../../testing/testing.ts";
import { createEarlyVariables } from "../../variables/early-variables.ts";
import { createVariablesResolver } from "../../variables/variables-client.ts";
import { createAddons, newPassword } from "../lifecycle.ts";
import { beginRotation } from "../sql.ts";
import { addonsForTest } from "./testing.ts";

const log = createLog("deployer", process.env.LOG_LEVEL ?? "silent");
let cluster: ReturnType<typeof addonsForTest>;
let platform: TestPlatform;
let secrets: Secrets;
let engine: Engine;
let reconciler: Awaited<ReturnType<typeof startServiceReconciler>> | undefined;

beforeAll(async () => {
  cluster = addonsForTest();
  platform = await startTestPlatform();
  const config = readConfig(platform.env, fields);
  await migrate(platform.pool, join(import.meta.dirname, "../../migrations"));
  secrets = createSecrets(config.secretKeys);
  engine = await startLocalEngine(config, secrets, log);
  await start();
});
afterAll(async () => {
  await reconciler?.stop();
  await cluster?.stop();
  await engine?.stop();
  await platform?.stop();
});

let turn = Promise.resolve();
/** Starts a deployer whose addons are on the cluster; an earlier one leaves off in the middle of what it does. */
function start(): Promise<void> {
  turn = turn.then(startNext);
  return turn;
}

async function startNext(): Promise<void> {
  await reconciler?.stop();
  const { pool } = platform;
  const addonServers = cluster.openEngines("statefulset");
  const addons = createAddons({ pool, secrets, servers: addonServers, log });
  const variables = { url: platform.variables.url, keys: testKeys, name: "deployer" };
  const early = createEarlyVariables(createVariablesResolver(serviceClient(InternalService, variables)));
  const databaseUrl = platform.env.DATABASE_URL!;
  reconciler = await startServiceReconciler({
    ...{ ...engine, databaseUrl, pool, addons, addonServers, secrets, early, log },
    entitlementsOf: freePlan,
    buildsAtOnce: 2,
  });
}

async function newAddon(type: AddonType) {
  const [accountId, projectId, environmentId, id] = [newId("acc"), newId("prj"), newId("env"), newId("svc")];
  const { pool } = platform;
  await insertProject(pool, projectId, accountId, "shop");
  await insertEnvironment(pool, environmentId, accountId, projectId, "production");
  const config = mergeConfig(type, undefined, undefined);
  const made = { id, accountId, projectId, environmentId, name: "store", type, source: {}, config };
  await insertService(pool, { ...made, staged: false, addonState: "provisioning" });
  await enqueue(pool, [id]);
  return { ...made, serviceId: id };
}

type Made = Awaited<ReturnType<typeof newAddon>>;

async function shown(addon: Made) {
  const row = await findService(platform.pool, { ...addon, service: addon.name });
  return row && { ...row, ...serviceStatus(row) };
}

const until = (addon: Made, status: string) =>
  eventually(`${addon.type} is ${status}`, async () => {
    const now = await shown(addon);
    return now?.status === status && now;
  });

async function messagesOf(addon: Made): Promise<string[]> {
  const { rows } = await platform.pool.query<{ subject: string }>(
    "select subject from outbox where subject like '%' || $1 order by id",
    [addon.accountId],
  );
  const kind = rows.map(({ subject }) => subject.split(".").at(-2)!);
  return kind.filter((one) => /^(Usage|AddonKeys)/.test(one));
}

test.concurrent.each(ADDON_TYPES)(
  "a %s addon comes, has its password replaced and is put right by whichever deployer runs, then goes",
  async (type) => {
    const addon = await newAddon(type);
    await start();
    await until(addon, "running");
    await eventually("its usage began", async () => (await messagesOf(addon)).includes("UsageStarted"));
    expect(await messagesOf(addon)).toContain("AddonKeysPublished");

    expect(await beginRotation(platform.pool, addon.id, secrets.seal(newPassword(), addon.id))).toBe(true);
    await enqueue(platform.pool, [addon.id]);
    await start();
    await eventually("the new password is published", async () => {
      return (await shown(addon))?.credentialsRotatedAt;
    });
    await until(addon, "running");

    const namespace = cluster.spaceOf(addon.environmentId);
    const before = await cluster.kube.get(kinds.StatefulSet, nameOf(addon.id), namespace);
    await cluster.kube.remove(kinds.StatefulSet, nameOf(addon.id), namespace);
    await eventually("it is made again", async () => {
      const now = await cluster.kube.get(kinds.StatefulSet, nameOf(addon.id), namespace);
      return now && now.metadata?.uid !== before?.metadata?.uid;
    });
    await until(addon, "running");

    await transaction(platform.pool, (tx) => deleteServices(tx, "id", [addon.id], true, addon));
    await eventually("it is gone", async () => (await shown(addon)) === undefined);
    await eventually("nothing is left", async () => (await cluster.leftOf(addon)).length === 0);
    expect((await messagesOf(addon)).at(-1)).toBe("UsageStopped");
  },
);
