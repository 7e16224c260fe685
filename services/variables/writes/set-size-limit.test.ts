import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { deployerEvents, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  return { ...made, editor: world.as(made.accountId) };
}

describe("a resolved set over 512 KiB is refused on the write that would cause it", () => {
  const KIB64 = "x".repeat(64 * 1024 - 10);

  test("for any service under the scope, counting what each really gets", async () => {
    const { P, E, S, editor } = scene({ web: "web", api: "web" });
    for (const service of ["web", "api"]) await editor.listVariables({ ...E, service });
    const seven = Array.from({ length: 7 }, (_, i) => ({ name: `BIG_${i}`, value: KIB64 }));
    await editor.batchVariables({ ...P, set: seven });
    await editor.createVariable({ ...S, name: "OWN", value: KIB64 });
    const tooLarge = "422 validation_failed resolved_set_too_large";
    expect(await refused(editor.createVariable({ ...P, name: "ONE_MORE", value: KIB64 }))).toBe(tooLarge);
    expect(await refused(editor.createVariable({ ...E, name: "ONE_MORE", value: KIB64 }))).toBe(tooLarge);
    expect(await refused(editor.batchVariables({ ...S, set: [{ name: "ONE_MORE", value: KIB64 }] }))).toBe(
      tooLarge,
    );
    await editor.createVariable({ ...E, service: "api", name: "ONE_MORE", value: KIB64 });
    await editor.createVariable({ ...S, name: "BIG_0", value: KIB64 });
    await editor.batchVariables({ ...S, set: [{ name: "ONE_MORE", value: KIB64 }], unset: ["OWN"] });
    expect(await refused(editor.createVariable({ ...S, name: "COPY", aliasTarget: "BIG_1" }))).toBe(tooLarge);
    await editor.updateVariable({ ...S, variableName: "BIG_0", value: `${KIB64}0123456789` });
    expect(await refused(editor.createVariable({ ...S, name: "A", value: "x".repeat(100) }))).toBe(tooLarge);
  });

  test("also through aliases, and when a delete brings a wider value back", async () => {
    const { P, E, S, editor } = scene();
    const tooLarge = "422 validation_failed resolved_set_too_large";
    await editor.createVariable({ ...P, name: "BIG", value: KIB64 });
    const aliases = Array.from({ length: 8 }, (_, i) => ({ name: `COPY_${i}`, aliasTarget: "BIG" }));
    expect(await refused(editor.batchVariables({ ...S, set: aliases }))).toBe(tooLarge);
    await editor.createVariable({ ...S, name: "BIG", value: "small" });
    await editor.batchVariables({ ...S, set: aliases });
    expect(await refused(editor.deleteVariable({ ...S, variableName: "BIG" }))).toBe(tooLarge);
    expect(await refused(editor.batchVariables({ ...S, unset: ["BIG"] }))).toBe(tooLarge);
    await editor.batchVariables({ ...S, unset: ["BIG", "COPY_0", "COPY_1"] });
    expect((await editor.getResolvedVariables(S)).data).toHaveLength(7);
    const more = Array.from({ length: 7 }, (_, i) => ({ name: `COPY_${i}`, value: KIB64 }));
    expect(await refused(editor.batchVariables({ ...E, set: more }))).toBe(tooLarge);
  });

  test("for services that come later too", async () => {
    const { P, editor } = scene();
    const nine = Array.from({ length: 9 }, (_, i) => ({ name: `BIG_${i}`, value: KIB64 }));
    expect(await refused(editor.batchVariables({ ...P, set: nine }))).toBe(
      "422 validation_failed resolved_set_too_large",
    );
    await editor.batchVariables({ ...P, set: nine.slice(1) });
  });

  test("and a set that grew by an addon's keys may shrink step by step", async () => {
    const made = scene({ web: "web", db: "postgres" });
    const { E, S, editor } = made;
    const set = Array.from({ length: 9 }, (_, i) => ({
      name: `C_${i}`,
      connection: { service: "db", key: "URL" },
    }));
    await editor.batchVariables({ ...S, set });
    await editor.createVariable({ ...E, name: "SMALL", value: "x" });
    const { accountId, ids } = made;
    const published = { accountId, serviceId: ids.db!, revision: 1n };
    world.tree.publish(published.serviceId, { URL: KIB64 }, published.revision);
    await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, published);
    const dangling = async () => (await editor.getResolvedVariables(S)).dangling;
    await eventually("the keys are known", async () => (await dangling()).length === 0);
    expect(await refused(editor.createVariable({ ...E, name: "MORE", value: "x" }))).toBe(
      "422 validation_failed resolved_set_too_large",
    );
    await editor.updateVariable({ ...E, variableName: "SMALL", value: "" });
    await editor.deleteVariable({ ...S, variableName: "C_0" });
    await editor.deleteVariable({ ...S, variableName: "C_1" });
    await editor.createVariable({ ...E, name: "MORE", value: "x" });
  });
});
