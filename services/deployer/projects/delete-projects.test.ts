import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { counting } from "../../kit/testing/explaining.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs, startDeployer, type TestDeployer } from "../testing/testing.ts";
import { deleteProjects } from "./delete-projects.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

test("all projects of an account are deleted in as many statements as one, with their events", async () => {
  const deletion = { confirmed: true, byUserId: newId("usr"), backupDays: 7 };
  const statementsFor = async (projects: number) => {
    const { accountId, environment, catalog } = actAs(berth.port, newId("acc"));
    const ids: string[] = [];
    for (let n = 0; n < projects; n++) {
      const { project: _, at: __, ...path } = await environment();
      ids.push(path.projectId);
      for (const name of ["web", "api"]) await catalog.createService({ ...path, name, type: "web" });
    }
    const statements = await transaction(berth.pool, async (tx) => {
      const { db, counted } = counting(tx);
      expect(await deleteProjects(db, accountId, ids, deletion)).toBe(projects);
      return counted.statements;
    });
    expect((await catalog.listProjects({ accountId })).data).toEqual([]);
    const { rows } = await berth.pool.query<{ kind: string; count: number }>(
      `select split_part(subject, '.', 4) as kind, count(*)::int from
         (select subject from outbox union all select subject from outbox_sent) as emitted
       where subject like '%Deleted.' || $1 group by 1 order by 1`,
      [accountId],
    );
    const counts = rows.map(({ kind, count }) => `${count} ${kind}`);
    expect(counts).toEqual([
      `${projects} EnvironmentDeleted`,
      `${projects} ProjectDeleted`,
      `${2 * projects} ServiceDeleted`,
    ]);
    return statements;
  };
  expect(await statementsFor(6)).toBe(await statementsFor(1));
});

test("a service is removed while another transaction holds its project, as long as it is not the last one", async () => {
  const acting = actAs(berth.port, newId("acc"));
  const environment = await acting.environment();
  for (const name of ["web", "api"])
    await acting.catalog.createService({ ...environment, name, type: "web" });
  const isGone = async (name: string) => {
    const text = "select from services where environment_id = $1 and name = $2";
    return (await berth.pool.query(text, [environment.environmentId, name])).rowCount === 0;
  };
  const other = await berth.pool.connect();
  await other.query("begin");
  await other.query("select from projects where id = $1 for key share", [environment.projectId]);
  await acting.catalog.deleteService(environment.at("web"));
  await eventually("it is gone", () => isGone("web"));
  await other.query("commit");
  other.release();
  await acting.catalog.deleteProject(environment);
  await eventually("the project is gone", async () => {
    const left = await berth.pool.query("select from projects where id = $1", [environment.projectId]);
    return left.rowCount === 0;
  });
});
