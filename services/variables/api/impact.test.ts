import { afterAll, beforeAll, expect, test } from "vitest";
import { explaining, mostRows } from "../../kit/testing/explaining.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { listImpact } from "../rows/sql.ts";
import { startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  return { ...made, editor: world.as(made.accountId), reader: world.as(made.accountId, "reader") };
}

test("deleting at project and environment scope needs confirmation and lists the affected services", async () => {
  const { P, E, S, editor, reader } = scene({ web: "web", api: "worker", db: "postgres" });
  for (const name of ["web", "api", "db"]) await reader.listVariables({ ...E, service: name });
  await editor.createVariable({ ...P, name: "X", value: "p" });
  await editor.createVariable({ ...E, service: "api", name: "X", value: "own" });
  const { status, code, context } = await refusal(editor.deleteVariable({ ...P, variableName: "X" }));
  expect([status, code]).toEqual([409, "impact_confirmation_required"]);
  const impact = await reader.getVariableImpact({ ...P, variableName: "X" });
  expect(impact).toMatchObject({ total: 1, services: [{ name: "web", environmentId: E.environmentId }] });
  expect(context!.impact).toEqual({
    total: 1,
    services: impact.services.map(({ id, name, environmentId }) => ({ id, name, environmentId })),
  });
  await editor.createVariable({ ...E, name: "X", value: "e" });
  expect(await reader.getVariableImpact({ ...P, variableName: "X" })).toMatchObject({
    total: 0,
    services: [],
  });
  expect(await reader.getVariableImpact({ ...E, variableName: "X" })).toMatchObject({ total: 1 });
  expect(await refused(editor.deleteVariable({ ...P, variableName: "X" }))).toBe(
    "409 impact_confirmation_required",
  );
  expect(await refused(editor.deleteVariable({ ...E, variableName: "X", confirmImpact: false }))).toBe(
    "409 impact_confirmation_required",
  );
  await editor.createVariable({ ...S, name: "X", value: "s" });
  await editor.deleteVariable({ ...S, variableName: "X" });
  await editor.deleteVariable({ ...P, variableName: "X", confirmImpact: true });
  expect(await refused(reader.getVariableImpact({ ...P, variableName: "X" }))).toBe("404 not_found");
});

test("the impact of several names is every service that loses any of them, wherever each is shadowed", async () => {
  const { P, E, editor, reader } = scene({ web: "web", api: "worker" });
  for (const service of ["web", "api"]) await reader.listVariables({ ...E, service });
  const set = (scope: object, ...names: string[]) =>
    editor.batchVariables({ ...P, ...scope, set: names.map((name) => ({ name, value: "v" })) });
  const concerned = async (scope: object, ...unset: string[]) => {
    const { context } = await refusal(editor.batchVariables({ ...P, ...scope, unset }));
    const { services, total } = context!.impact as { services: { name: string }[]; total: number };
    return [total, ...services.map(({ name }) => name).sort()];
  };
  await set({}, "X", "Y");
  await set(E, "Y");
  await set({ ...E, service: "web" }, "X", "Y");
  expect(await concerned({}, "X", "Y")).toEqual([1, "api"]);
  expect(await concerned({}, "Y", "X", "NONE")).toEqual([1, "api"]);
  expect(await concerned({}, "Y")).toEqual([0]);
  expect(await concerned(E, "Y")).toEqual([1, "api"]);
  await set({ ...E, service: "api" }, "X");
  expect(await concerned({}, "X", "Y")).toEqual([0]);
});

test("the impact lists 20 services and counts all", async () => {
  const many = Object.fromEntries(Array.from({ length: 23 }, (_, i) => [`s${i}`, "web"]));
  const { P, E, editor, reader } = scene(many);
  for (const service of Object.keys(many)) await reader.listVariables({ ...E, service });
  await editor.createVariable({ ...P, name: "X", value: "p" });
  const { context } = await refusal(editor.deleteVariable({ ...P, variableName: "X" }));
  const told = context!.impact as { services: unknown[]; total: number };
  expect([told.services.length, told.total]).toEqual([20, 23]);
  expect((await reader.getVariableImpact({ ...P, variableName: "X" })).services).toHaveLength(23);
});

test("the impact on many services of an environment with many variables reads no pair of them", async () => {
  const { projectId, environmentId } = scene();
  const services = Array.from({ length: 200 }, (_, i) => ({ id: `svc_${i}`, name: `s${i}`, environmentId }));
  const insert = `insert into variables (scope_id, name, id, revision, sensitive, alias_target)
    select scope, 'N' || n, scope || n, 1, false, 'V' from generate_series(1, 300) n, unnest($1::text[]) scope`;
  await world.pool.query(insert, [[projectId, environmentId, "svc_7"]]);
  await world.pool.query("delete from variables where scope_id = $1 and name = 'N1'", [environmentId]);
  await world.pool.query("analyze variables");

  const { db, plans } = explaining(world.pool);
  for (const names of [["N1"], ["N1", "N2", "N3"]]) await listImpact(db, projectId, names, services, 20);
  for (const plan of plans) expect([plan, mostRows(plan) <= 2000]).toEqual([plan, true]);
  const found = await listImpact(world.pool, projectId, ["N1", "N2"], services, 20);
  expect([found.length, found[0]!.total, found.some(({ id }) => id === "svc_7")]).toEqual([20, 199, false]);
});
