import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { addonAdmin } from "../addons/testing.ts";
import { createWebService, startDeployer, type TestDeployer } from "../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer({ ADDON_POSTGRES_URL: await addonAdmin() });
});
afterAll(() => berth?.stop());

async function scene(...names: string[]) {
  const made = await createWebService(berth.port);
  const { catalog, environment } = made;
  const ids: Record<string, string> = {};
  for (const name of names)
    ids[name] = (await catalog.createService({ ...environment, name, type: "postgres" })).id;
  for (const name of names)
    await eventually("it runs", async () => {
      return (await catalog.getService(environment.at(name))).status === "running";
    });
  const promote = (name: string, over: string) => catalog.promoteService({ ...environment.at(name), over });
  const named = async (id: string) => {
    const { rows } = await berth.pool.query("select name from services where id = $1", [id]);
    return rows[0].name;
  };
  const keys = async (id: string) => (await berth.asService.getAddonKeys({ serviceId: id })).keys;
  return { ...made, ids, promote, named, keys };
}

test("an addon takes the name of another, which gets its name; done again, it is undone; keys stay", async () => {
  const { accountId, catalog, environment, ids, promote, named, keys } = await scene("db", "db18");
  const before = [await keys(ids.db!), await keys(ids.db18!)];
  const since = async (id: string) =>
    timestampMs((await berth.asService.resolveScope({ serviceId: id })).namedAt!);
  const born = Math.max(await since(ids.db!), await since(ids.db18!));
  expect(await promote("db18", "db")).toMatchObject({ id: ids.db18, name: "db" });
  expect([await named(ids.db!), await named(ids.db18!)]).toEqual(["db18", "db"]);
  expect((await catalog.getService(environment.at("db"))).id).toBe(ids.db18);
  expect(await since(ids.db18!)).toBeGreaterThan(born);
  expect(await since(ids.db!)).toBeGreaterThanOrEqual(await since(ids.db18!));
  expect([await keys(ids.db!), await keys(ids.db18!)]).toEqual(before);
  const kinds = await eventually("it is told", async () => {
    const found = await berth.eventsOf(accountId);
    return found.includes("ServiceRenamed") && found;
  });
  expect(kinds).toContain("AuditRecorded");
  expect(await promote("db18", "db")).toMatchObject({ id: ids.db, name: "db" });
  expect([await named(ids.db!), await named(ids.db18!)]).toEqual(["db", "db18"]);

  // Others who promote at the same time wait for each other.
  await Promise.all([promote("db", "db18"), promote("db18", "db"), promote("db", "db18")]);
  expect([await named(ids.db!), await named(ids.db18!)].sort()).toEqual(["db", "db18"]);
});

test("an addon that is no other, of another type, not ready or about to go, is not promoted", async () => {
  const { catalog, environment, ids, promote, named } = await scene("db", "other");
  expect(await refused(promote("db", "db"))).toBe("422 validation_failed same_service");
  expect(await refused(promote("db", "none"))).toBe("404 not_found");
  expect(await refused(promote("none", "db"))).toBe("404 not_found");
  expect(await refused(promote("db", ""))).toContain("422 validation_failed");
  expect(await refused(promote("db", "web"))).toBe("422 validation_failed not_addon");
  expect(await refused(promote("web", "db"))).toBe("422 validation_failed not_addon");
  await berth.pool.query("update services set type = 'redis' where id = $1", [ids.other]);
  expect(await refused(promote("db", "other"))).toBe("422 validation_failed other_type");
  await berth.pool.query("update services set type = 'postgres', addon_state = 'failed' where id = $1", [
    ids.other,
  ]);
  expect(await refused(promote("other", "db"))).toBe("409 service_not_ready");
  await berth.pool.query("update services set addon_state = 'ready' where id = $1", [ids.other]);
  await berth.pool.query("update services set deleting_at = now() where id = $1", [ids.other]);
  expect(await refused(promote("db", "other"))).toBe("409 service_deleting");
  expect(await named(ids.db!)).toBe("db");
  await catalog.createService({ ...environment, name: "staged", type: "postgres", staged: true });
  expect(await refused(promote("staged", "db"))).toBe("409 service_not_ready");
});

test("an addon whose data is not there yet is not promoted", async () => {
  const { ids, promote } = await scene("db", "next");
  await berth.pool.query(
    `insert into backups (id, account_id, service_id, type, status, trigger)
     values ('bkp_x', 'acc_x', $1, 'postgres', 'running', 'manual')`,
    [ids.db],
  );
  await berth.pool.query("insert into restores (service_id, backup_id) values ($1, 'bkp_x')", [ids.next]);
  expect(await refused(promote("next", "db"))).toBe("409 restore_running");
});
