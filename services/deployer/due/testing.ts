import { join } from "node:path";
import { newId } from "../../kit/ids.ts";
import { createPool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import { testDatabase } from "../../kit/testing/testing.ts";
import { mergeConfig } from "../projects/service-config.ts";
import { insertService } from "../projects/services-sql.ts";
import { insertEnvironment, insertProject } from "../projects/sql.ts";

/** A database with so many services. */
export async function openDatabase(services: number) {
  const database = await testDatabase(["deployer"]);
  const url = database.url("deployer");
  const pool = createPool(url);
  await migrate(pool, join(import.meta.dirname, "../migrations"));
  const [accountId, projectId, environmentId] = ["acc_work", newId("prj"), newId("env")];
  await insertProject(pool, projectId, accountId, "work");
  await insertEnvironment(pool, environmentId, accountId, projectId, "production");
  const config = mergeConfig("web", undefined, undefined);
  const more = { type: "web", source: {}, config, staged: false, addonState: undefined };
  const ids = Array.from({ length: services }, () => newId("svc"));
  for (const [at, id] of ids.entries())
    await insertService(pool, { id, accountId, projectId, environmentId, name: `web${at}`, ...more });
  const drop = async () => {
    await pool.end();
    await database.drop();
  };
  return { url, pool, ids, drop };
}
