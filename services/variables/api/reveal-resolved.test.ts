import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { VariablesService } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { deployerEvents, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  return { ...made, editor: world.as(made.accountId), reader: world.as(made.accountId, "reader") };
}

/** Returns the audit records of reveals in an account, once there are so many. */
const reveals = (accountId: string, count: number) =>
  eventually(`${count} reveals are recorded`, async () => {
    const records = world.published(AuditRecordedSchema, accountId);
    const found = records.filter(({ action }) => action === "variable.reveal");
    return found.length >= count && found;
  });

test("a set is revealed with all values, and each sensitive variable is recorded with its own scope", async () => {
  const { P, E, S, ids, accountId, editor, reader } = scene({ web: "web", db: "postgres" });
  world.tree.configure(ids.web!, { FROM_CONFIG: "config", LEVEL: "hidden" });
  world.tree.publish(ids.db!, { URL: "postgres://secret", HOST: "db.internal" });
  await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, { accountId, serviceId: ids.db! });
  await editor.createVariable({ ...P, name: "TOKEN", value: "of the project", sensitive: true });
  await editor.createVariable({ ...E, name: "TOKEN", value: "of the environment", sensitive: true });
  await editor.createVariable({ ...P, name: "LEVEL", value: "info" });
  await editor.createVariable({ ...S, name: "PGURL", aliasTarget: "DATABASE_URL" });
  await editor.createVariable({ ...E, name: "DATABASE_URL", connection: { service: "db", key: "URL" } });
  await editor.createVariable({ ...E, name: "PGHOST", connection: { service: "db", key: "HOST" } });
  await editor.createVariable({ ...E, name: "GHOST", aliasTarget: "NOBODY" });
  const { data, dangling } = await eventually("the addon's keys have arrived", async () => {
    const set = await reader.getResolvedVariables(S);
    return set.dangling.length === 1 && reader.revealResolvedVariables(S);
  });
  expect(data.map(({ name, value, sensitive, source }) => [name, value, sensitive, source])).toEqual([
    ["DATABASE_URL", "postgres://secret", true, "environment"],
    ["FROM_CONFIG", "config", false, "service"],
    ["LEVEL", "info", false, "project"],
    ["PGHOST", "db.internal", false, "environment"],
    ["PGURL", "postgres://secret", true, "service"],
    ["TOKEN", "of the environment", true, "environment"],
  ]);
  expect(dangling).toMatchObject([{ name: "GHOST", reason: "alias_target_not_found" }]);
  const records = await reveals(accountId, 3);
  expect(records.map(({ target, metadata }) => [target, metadata.scope, metadata.scopeId])).toEqual([
    ["DATABASE_URL", "environment", E.environmentId],
    ["PGURL", "service", ids.web],
    ["TOKEN", "environment", E.environmentId],
  ]);
  for (const { metadata, ip } of records) {
    expect(metadata).toMatchObject({
      projectId: P.projectId,
      service: "web",
      serviceId: ids.web,
      revealed: "3",
    });
    expect(ip).toBe("203.0.113.7");
  }
  expect(new Set(records.map(({ metadata }) => metadata.reveal)).size).toBe(1);
  const written = JSON.stringify(world.seen.map(({ data }) => Buffer.from(data).toString("latin1")));
  for (const secret of ["of the project", "of the environment", "postgres://secret"])
    expect(written + world.logLines.join()).not.toContain(secret);
});

test("its records are committed before it is answered", async () => {
  const { P, S, accountId, editor, reader } = scene();
  await editor.createVariable({ ...P, name: "PIN", value: "4711", sensitive: true });
  const blocker = await world.pool.connect();
  await blocker.query("begin; lock table outbox in access exclusive mode");
  let told = false;
  const revealing = reader.revealResolvedVariables(S).finally(() => {
    told = true;
  });
  // Reads that begin later end, the reveal cannot.
  for (let i = 0; i < 20; i++) await reader.getResolvedVariables(S);
  expect(told).toBe(false);
  await blocker.query("rollback");
  blocker.release();
  expect((await revealing).data).toMatchObject([{ name: "PIN", value: "4711" }]);
  expect(await reveals(accountId, 1)).toHaveLength(1);
});

test("a machine needs the role editor, a user that of a reader in the account of the service", async () => {
  const { P, S, accountId, editor, reader } = scene({ web: "web", db: "postgres" });
  await editor.createVariable({ ...P, name: "PIN", value: "4711", sensitive: true });
  const machine = (role: "reader" | "editor") =>
    clientAs(VariablesService, world.port, { accountId, role, kind: "machine", id: "usr_test" });
  expect(await refusal(machine("reader").revealResolvedVariables(S))).toMatchObject({
    ...{ status: 403, code: "forbidden" },
    context: { requiredRole: "editor" },
  });
  expect((await machine("reader").revealVariable({ ...P, variableName: "PIN" })).value).toBe("4711");
  expect((await machine("editor").revealResolvedVariables(S)).data).toHaveLength(1);
  expect((await reader.revealResolvedVariables(S)).data).toHaveLength(1);

  const other = scene();
  expect(await refused(other.editor.revealResolvedVariables(S))).toBe("403 forbidden");
  const crossed = { ...S, accountId: other.accountId };
  expect(await refused(other.editor.revealResolvedVariables(crossed))).toBe("404 not_found");
  expect(await refused(reader.revealResolvedVariables({ ...S, service: "db" }))).toBe("404 not_found");
  expect(await refused(reader.revealResolvedVariables({ ...S, service: "none" }))).toBe("404 not_found");
  expect(await reveals(accountId, 3)).toHaveLength(3);
});

test("a service without variables gets an empty set, and leaves no trace", async () => {
  const { S, accountId, reader } = scene();
  expect(await reader.revealResolvedVariables(S)).toMatchObject({ data: [], dangling: [] });
  const { rowCount } = await world.pool.query("select from data_keys where account_id = $1", [accountId]);
  expect(rowCount).toBe(0);
});
