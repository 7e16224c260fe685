import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
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

test("each change has one audit record and one event, without a value; a reveal is recorded before it is answered", async () => {
  const { P, accountId, editor, reader } = scene();
  const at = { ...P, variableName: "PIN" };
  await editor.createVariable({ ...P, name: "PIN", value: "marker-1", sensitive: true });
  await editor.updateVariable({ ...at, value: "marker-2" });
  await editor.updateVariable({ ...at, sensitive: false });
  const blocker = await world.pool.connect();
  await blocker.query("begin; lock table outbox in access exclusive mode");
  let told = false;
  const revealing = reader.revealVariable(at).finally(() => {
    told = true;
  });
  // Reads that begin later end, the reveal cannot.
  for (let i = 0; i < 20; i++) await reader.getVariable(at);
  expect(told).toBe(false);
  await blocker.query("rollback");
  blocker.release();
  expect((await revealing).value).toBe("marker-2");
  await editor.batchVariables({
    ...P,
    set: [
      { name: "A", value: "a" },
      { name: "B", value: "b" },
    ],
    unset: ["PIN"],
    confirmImpact: true,
  });
  await editor.deleteVariable({ ...P, variableName: "A", confirmImpact: true });
  await refused(reader.revealVariable(at));
  const records = await eventually("all records", async () => {
    const found = world.published(AuditRecordedSchema, accountId);
    return found.length >= 6 && found;
  });
  expect(records.map((record) => [record.action, record.target])).toEqual([
    ["variable.create", "PIN"],
    ["variable.update", "PIN"],
    ["variable.unseal", "PIN"],
    ["variable.reveal", "PIN"],
    ["variable.batch", P.projectId],
    ["variable.delete", "A"],
  ]);
  for (const record of records) {
    expect(record).toMatchObject({ accountId, ip: "203.0.113.7", actor: { kind: "user", id: "usr_test" } });
    expect(record.requestId).not.toBe("");
    expect(record.metadata).toMatchObject({ scope: "project", scopeId: P.projectId });
  }
  expect(records[4]!.metadata).toMatchObject({ set: "A,B", unset: "PIN" });
  const changes = world.published(VariablesChangedSchema, accountId);
  expect(changes.map((change) => [change.names, Number(change.revision)])).toEqual([
    [["PIN"], 1],
    [["PIN"], 2],
    [["PIN"], 3],
    [["A", "B", "PIN"], 4],
    [["A"], 5],
  ]);
});
