import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { refusal, refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  return { ...made, editor: world.as(made.accountId) };
}

const some = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `N${from + i}`, value: "x" }));

describe("a batch", () => {
  test("creates, overwrites and removes as one change, and answers metadata in its own order", async () => {
    const { S, accountId, editor } = scene();
    const old = await editor.createVariable({ ...S, name: "B", value: "1" });
    await editor.createVariable({ ...S, name: "GONE", value: "1" });
    const result = await editor.batchVariables({
      ...S,
      set: [
        { name: "Z", aliasTarget: "B" },
        { name: "B", value: "2" },
        { name: "C", connection: { service: "db", key: "URL" } },
      ],
      unset: ["GONE", "NEVER", "GONE"],
    });
    expect(result).toMatchObject({ applied: 3, removed: 1 });
    expect(result.data.map((variable) => variable.name)).toEqual(["Z", "B", "C"]);
    expect(result.data.every((variable) => variable.value === undefined)).toBe(true);
    expect(result.data[1]!.id).toBe(old.id);
    expect(result.data[2]!).toMatchObject({ sensitive: true, connection: { service: "db", key: "URL" } });
    const changes = await eventually("the changes are told", async () => {
      const found = world.published(VariablesChangedSchema, accountId);
      return found.length === 3 && found;
    });
    expect([...changes[2]!.names].sort()).toEqual(["B", "C", "GONE", "Z"]);
    expect(changes[2]).toMatchObject({ scope: "service", scopeId: result.data[0]!.scopeId, revision: 3n });
    expect(world.published(AuditRecordedSchema, accountId).map((record) => record.action)).toEqual([
      "variable.create",
      "variable.create",
      "variable.batch",
    ]);
  });

  test("keeps a sensitive literal sensitive unless the entry says otherwise", async () => {
    const { P, editor } = scene();
    const send = async (entry: object) =>
      (await editor.batchVariables({ ...P, set: [{ name: "K", ...entry }] })).data[0]!.sensitive;
    expect(await send({ value: "1", sensitive: true })).toBe(true);
    expect(await send({ value: "2" })).toBe(true);
    expect(await send({ value: "3", sensitive: false })).toBe(false);
    expect(await send({ value: "4" })).toBe(false);
    expect(await send({ value: "5", sensitive: true })).toBe(true);
    expect(await send({ aliasTarget: "OTHER" })).toBe(false);
    expect(await send({ value: "6" })).toBe(false);
  });

  test("that is empty or changes nothing answers zeros and leaves no trace", async () => {
    const { S, accountId, editor } = scene();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    expect(await editor.batchVariables(S)).toMatchObject({ data: [], applied: 0, removed: 0 });
    expect(await editor.batchVariables({ ...S, unset: ["NOBODY"] })).toMatchObject({
      applied: 0,
      removed: 0,
    });
    const { data } = await editor.batchVariables({ ...S, set: [{ name: "B", value: "1" }] });
    expect(data).toHaveLength(1);
    const changes = await eventually("the changes are told", async () => {
      const found = world.published(VariablesChangedSchema, accountId);
      return found.length >= 2 && found;
    });
    expect(changes.map((change) => change.revision)).toEqual([1n, 2n]);
  });

  const cases: [string, object, string][] = [
    ["of 501 names", { set: some(0, 300), unset: some(300, 201).map((v) => v.name) }, "batch_too_large"],
    ["with a name twice in set", { set: [...some(0, 1), ...some(0, 1)] }, "duplicate_name"],
    ["with a name in both lists", { set: some(0, 1), unset: ["N0"], confirmImpact: true }, "duplicate_name"],
    ["with a bad name to set", { set: [{ name: "a-b", value: "" }] }, "invalid_name"],
    ["with a bad name to unset", { unset: ["a-b"], confirmImpact: true }, "invalid_name"],
    [
      "with the reserved name",
      { set: [{ name: "PLATFORM_VARIABLES_REVISION", value: "" }] },
      "reserved_name",
    ],
    ["with an entry without source", { set: [{ name: "A" }] }, "exactly_one_source"],
    [
      "with a sensitive alias",
      { set: [{ name: "A", aliasTarget: "B", sensitive: true }] },
      "sensitive_requires_literal",
    ],
    ["with an alias to itself", { set: [{ name: "A", aliasTarget: "A" }] }, "alias_self_reference"],
    ["with a value too large", { set: [{ name: "A", value: "x".repeat(65537) }] }, "value_too_large"],
    ["with a NUL", { set: [{ name: "A", value: "\0" }] }, "value_invalid"],
    [
      "with a circle inside",
      {
        set: [
          { name: "A", aliasTarget: "B" },
          { name: "B", aliasTarget: "A" },
        ],
      },
      "alias_cycle",
    ],
  ];
  test.each(cases)("%s is refused as a whole", async (_what, given, reason) => {
    const { P, editor } = scene();
    const set = [...((given as { set?: object[] }).set ?? []), { name: "GOOD", value: "1" }];
    expect(await refused(editor.batchVariables({ ...P, ...given, set }))).toBe(
      `422 validation_failed ${reason}`,
    );
    expect((await editor.listVariables(P)).data).toEqual([]);
  });

  test("is refused with every wrong entry, each by its path", async () => {
    const { P, editor } = scene();
    const { details } = await refusal(
      editor.batchVariables({ ...P, set: [...some(0, 1), { name: "A" }, { name: "N0", value: "\0" }] }),
    );
    expect(details.map(({ path, reason }) => [path, reason])).toEqual([
      ["set[1].value", "exactly_one_source"],
      ["set[2].name", "duplicate_name"],
      ["set[2].value", "value_invalid"],
    ]);
  });

  test("that unsets at project or environment scope needs confirmation; setting alone does not", async () => {
    const { P, E, S, editor } = scene();
    await editor.listVariables(S);
    for (const base of [P, E]) {
      await editor.batchVariables({ ...base, set: some(0, 2) });
      const { code, context } = await refusal(editor.batchVariables({ ...base, unset: ["N0"] }));
      expect(code).toBe("impact_confirmation_required");
      expect(context!.impact).toMatchObject({ total: 1, services: [{ name: "web" }] });
      expect(await refused(editor.batchVariables({ ...base, set: some(5, 1), unset: ["NOBODY"] }))).toBe(
        "409 impact_confirmation_required",
      );
      expect(await editor.batchVariables({ ...base, unset: ["N0"], confirmImpact: true })).toMatchObject({
        removed: 1,
      });
    }
    await editor.batchVariables({ ...S, set: some(0, 1) });
    expect(await editor.batchVariables({ ...S, unset: ["N0"] })).toMatchObject({ removed: 1 });
  });
});

describe("a scope holds 1000 variables", () => {
  test("and not one more, whichever request adds it and however many write at once", async () => {
    const { P, editor } = scene();
    await editor.batchVariables({ ...P, set: some(0, 500) });
    await editor.batchVariables({ ...P, set: some(500, 490) });
    expect(await refused(editor.batchVariables({ ...P, set: some(2000, 11) }))).toBe("403 quota_exceeded");
    expect(await refused(editor.getVariable({ ...P, variableName: "N2000" }))).toBe("404 not_found");
    const outcomes = await Promise.all(
      Array.from({ length: 25 }, (_, i) =>
        editor.createVariable({ ...P, name: `R${i}`, value: "x" }).then(
          () => "made",
          (error) => refused(Promise.reject(error)),
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === "made")).toHaveLength(10);
    expect(outcomes.filter((outcome) => outcome === "403 quota_exceeded")).toHaveLength(15);
    await editor.batchVariables({ ...P, set: some(0, 500) });
    const swapped = await editor.batchVariables({
      ...P,
      set: some(5000, 10),
      unset: some(0, 10).map((v) => v.name),
      confirmImpact: true,
    });
    expect(swapped).toMatchObject({ applied: 10, removed: 10 });
    expect((await refusal(editor.createVariable({ ...P, name: "OVER", value: "" }))).context).toEqual({
      limit: 1000,
    });
  });
});

describe("writers at the same moment", () => {
  test("two creates of one name: one succeeds, the other is refused", async () => {
    const { P, editor } = scene();
    for (let round = 0; round < 10; round++) {
      const both = await Promise.all(
        ["a", "b"].map((value) =>
          editor.createVariable({ ...P, name: `TWICE_${round}`, value }).then(
            (made) => made.value!,
            (error) => refused(Promise.reject(error)),
          ),
        ),
      );
      expect(both.filter((outcome) => outcome === "409 variable_exists")).toHaveLength(1);
      const kept = await editor.getVariable({ ...P, variableName: `TWICE_${round}` });
      expect(both).toContain(kept.value);
    }
  });

  test("batches and single writes of the same names leave the state of some serial order", async () => {
    const { P, E, S, editor } = scene();
    const writes = Array.from({ length: 12 }, (_, i) => [
      editor.batchVariables({ ...P, set: some(0, 50).map(({ name }) => ({ name, value: `p${i}` })) }),
      editor.batchVariables({ ...E, set: some(0, 50).map(({ name }) => ({ name, value: `e${i}` })) }),
      editor.batchVariables({ ...S, set: some(0, 50).map(({ name }) => ({ name, value: `s${i}` })) }),
    ]);
    await Promise.all(writes.flat());
    for (const base of [P, E, S]) {
      const { data } = await editor.listVariables({ ...base, limit: 100 });
      expect(new Set(data.map((variable) => variable.value)).size).toBe(1);
    }
  });

  test("two halves of a cycle of aliases: one is refused", async () => {
    const { P, E, editor } = scene();
    for (let round = 0; round < 10; round++) {
      const [a, b] = [`A${round}`, `B${round}`];
      await editor.createVariable({ ...P, name: a, value: "x" });
      await editor.createVariable({ ...P, name: b, value: "x" });
      const outcomes = await Promise.all(
        [
          { name: a, aliasTarget: b },
          { name: b, aliasTarget: a },
        ].map((entry) =>
          editor.createVariable({ ...E, ...entry }).then(
            () => "made",
            (error) => refused(Promise.reject(error)),
          ),
        ),
      );
      expect(outcomes.sort()).toEqual(["422 validation_failed alias_cycle", "made"]);
    }
  });
});
