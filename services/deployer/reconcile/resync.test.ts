import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../kit/log.ts";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migratedDatabase } from "../../kit/testing/testing.ts";
import type { AddonServers } from "../addons/port.ts";
import type { Runtime } from "../runtime/port.ts";
import { resync } from "./resync.ts";
import { enqueueUnfinished } from "./resync-sql.ts";

let database: Awaited<ReturnType<typeof migratedDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await migratedDatabase();
  pool = createPool(database.url("deployer"));
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

test("what cannot be removed of a deleted service holds up neither other removals nor the work that is due", async () => {
  const [addons, services, environments] = ["addon", "svc", "env"].map((kind) => [
    `${kind}_stuck`,
    `${kind}_next`,
  ]);
  const ids = [...addons!, ...services!, ...environments!];
  await pool.query("insert into removed (id) select unnest($1::text[])", [ids]);
  const removed: string[] = [];
  const remove = async (id: string) => {
    if (id.endsWith("stuck")) throw new Error(`${id} cannot be removed`);
    removed.push(id);
  };
  const held = { version: 1, revision: 1, state: "running", restarts: 0 };
  let woken = false;
  const resynced = resync({
    pool,
    runtime: {
      list: async () => services!.map((serviceId) => ({ serviceId, ...held })),
      remove,
      environments: async () => environments!,
      removeEnvironment: remove,
    } as Partial<Runtime> as Runtime,
    addonServers: {
      ownServer: ["redis"],
      list: async () => addons!.map((serviceId) => ({ serviceId, type: "redis", running: true })),
      remove: ({ serviceId }: { serviceId: string }) => remove(serviceId),
    } as unknown as AddonServers,
    log: createLog("deployer", "silent"),
    wake: () => {
      woken = true;
    },
  });
  await expect(resynced).rejects.toThrow("addon_stuck");
  expect(removed).toEqual(["addon_next", "svc_next", "env_next"]);
  expect(woken).toBe(true);
});

test("of thousands of services, only those with something unfinished are read, also of failed addons", async () => {
  const project = "insert into projects (id, account_id, name) values ('prj_1', 'acc_1', 'shop')";
  const environments = `insert into environments (id, account_id, project_id, name)
    select 'env_' || n, 'acc_1', 'prj_1', 'preview-' || n from generate_series(0, 99) n`;
  const services = `insert into services (id, account_id, project_id, environment_id, name, type, source, config, staged,
      addon_state)
    select 'svc_' || n, 'acc_1', 'prj_1', 'env_' || n % 100, 'db' || n, 'postgres', '{}', '{}', false,
      case when n % 1000 = 0 then 'failed' when n % 1000 = 1 then 'provisioning' else 'ready' end
    from generate_series(1, 5000) n`;
  const work = "insert into work (service_id) select id from services";
  for (const text of [project, environments, services, work, "analyze services, work, deployments"])
    await pool.query(text);
  const explaining = {
    query: async ({ text }: { text: string }) => {
      const { rows } = await pool.query(`explain (costs off) ${text}`);
      return { rowCount: rows.filter((row) => /Seq Scan on services/.test(row["QUERY PLAN"])).length };
    },
  };
  expect(await enqueueUnfinished(explaining as never)).toBe(0);
  expect(await enqueueUnfinished(pool)).toBe(10);
});
