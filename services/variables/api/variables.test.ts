import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { headers, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

const scopes = ["project", "environment", "service"] as const;

/** A scene, its editor, and its three bases by scope. */
function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  const bases = { project: made.P, environment: made.E, service: made.S };
  return { ...made, bases, editor: world.as(made.accountId), reader: world.as(made.accountId, "reader") };
}

describe.each(scopes)("at %s scope", (scope) => {
  test("a variable is created, read, changed and deleted", async () => {
    const { bases, editor, reader } = scene();
    const base = bases[scope];
    const made = await editor.createVariable({ ...base, name: "LEVEL", value: "info" });
    expect(made).toMatchObject({ name: "LEVEL", scope, sensitive: false, value: "info" });
    expect(made.id).toMatch(/^var_[0-9a-z]{26}$/);
    expect(made.scopeId).toMatch(/^(prj|env|svc)_/);
    const at = { ...base, variableName: "LEVEL" };
    const { $typeName: _, warnings, ...shown } = made;
    expect(warnings).toEqual([]);
    expect(await reader.getVariable(at)).toMatchObject(shown);
    const changed = await editor.updateVariable({ ...at, value: "debug" });
    expect(changed).toMatchObject({ id: made.id, value: "debug", createdAt: made.createdAt });
    await editor.deleteVariable({ ...at, confirmImpact: true });
    expect(await refused(reader.getVariable(at))).toBe("404 not_found");
    expect(await refused(editor.deleteVariable({ ...at, confirmImpact: true }))).toBe("404 not_found");
  });

  test("a sensitive value leaves only by reveal", async () => {
    const { bases, editor, reader } = scene();
    const base = bases[scope];
    const at = { ...base, variableName: "TOKEN" };
    const made = await editor.createVariable({ ...base, name: "TOKEN", value: "hush", sensitive: true });
    const batch = await editor.batchVariables({ ...base, set: [{ name: "TOKEN", value: "hush2" }] });
    const patched = await editor.updateVariable({ ...at, value: "hush3" });
    const listed = await reader.listVariables(base);
    const read = await reader.getVariable(at);
    for (const variable of [made, ...batch.data, patched, ...listed.data, read]) {
      expect(variable.sensitive).toBe(true);
      expect(variable.value).toBeUndefined();
    }
    expect(await reader.revealVariable(at)).toMatchObject({ name: "TOKEN", value: "hush3" });
  });
});

test("pages go from the newest to the oldest without losing or repeating a variable", async () => {
  const { P, editor, reader } = scene();
  const names = Array.from({ length: 45 }, (_, i) => `N${i}`);
  for (const name of names) await editor.createVariable({ ...P, name, value: name });
  const seen: string[] = [];
  let cursor = "";
  for (let pages = 0; pages < 10; pages++) {
    const { data, page } = await reader.listVariables({ ...P, cursor });
    expect(data).toHaveLength(page!.hasMore ? 20 : 5);
    for (const variable of data) {
      expect(variable.value).toBe(variable.name);
      seen.push(variable.name);
    }
    cursor = page!.nextCursor;
    if (!page!.hasMore) break;
  }
  expect(cursor).toBe("");
  const ids = await reader.listVariables({ ...P, limit: 100 });
  expect(seen).toEqual(ids.data.map((variable) => variable.name));
  expect([...seen].sort()).toEqual([...names].sort());
  expect(await refused(reader.listVariables({ ...P, limit: 101 }))).toBe(
    "422 validation_failed out_of_range",
  );
  const other = scene();
  const first = await reader.listVariables(P);
  expect(await refused(other.reader.listVariables({ ...other.P, cursor: first.page!.nextCursor }))).toBe(
    "400 malformed_request",
  );
});

test("a variable PORT warns at every scope that services do not receive it", async () => {
  const { editor, P, E } = await scene();
  for (const path of [E, P]) {
    const { warnings } = await editor.batchVariables({
      ...path,
      set: [
        { name: "PORT", value: "3000" },
        { name: "A", value: "1" },
      ],
    });
    expect(warnings).toMatchObject([
      { reason: "port_reserved", variable: "PORT", environmentId: E.environmentId },
    ]);
  }
});

test("a connection to a missing addon or key warns at every scope; one to an addon that is being created does not", async () => {
  const { accountId, projectId, ids, P, E, S } = world.scene({ web: "web", db: "postgres", cache: "redis" });
  world.tree.publish(ids.db!, { HOST: "h", URL: "u" });
  world.tree.publish(ids.cache!, {}, 1n, false);
  const editor = world.as(accountId);
  const create = async (at: object, name: string, service: string, key: string) => {
    const made = await editor.createVariable({ ...P, ...at, name, connection: { service, key } });
    return made.warnings.map(({ reason, environmentId, variable }) => [reason, environmentId, variable]);
  };
  const { environmentId } = E;
  expect(await create(S, "A", "ghost", "URL")).toEqual([["service_not_found", environmentId, "A"]]);
  expect(await create(S, "B", "web", "URL")).toEqual([["service_not_addon", environmentId, "B"]]);
  expect(await create(E, "C", "db", "DATABASE")).toEqual([["key_not_found", environmentId, "C"]]);
  expect(await create(E, "D", "db", "URL")).toEqual([]);
  expect(await create(E, "E", "cache", "URL")).toEqual([]);
  const other = { ...P, environmentId: world.tree.environment(projectId) };
  await editor.listVariables(other);
  expect(await create({}, "F", "db", "URL")).toEqual([["service_not_found", other.environmentId, "F"]]);
  const patch = (service: string) =>
    editor.updateVariable({ ...E, variableName: "D", connection: { service, key: "URL" } });
  expect((await patch("ghost")).warnings).toMatchObject([
    { reason: "service_not_found", variable: "D", connection: { service: "ghost", key: "URL" }, cycle: [] },
  ]);
  expect((await patch("db")).warnings).toEqual([]);
  const set = Array.from({ length: 30 }, (_, n) => ({
    name: `G${n}`,
    connection: { service: "ghost", key: "URL" },
  }));
  expect((await editor.batchVariables({ ...E, set })).warnings).toHaveLength(20);
});

describe("a create is refused", () => {
  const db = { service: "db", key: "URL" };
  const cases: [string, object, string][] = [
    ["for a name that starts with a digit", { name: "1A", value: "" }, "invalid_name"],
    ["for a name of 129 characters", { name: "A".repeat(129), value: "" }, "invalid_name"],
    ["for a name with a line feed at its end", { name: "A\n", value: "" }, "invalid_name"],
    ["for the reserved name", { name: "PLATFORM_VARIABLES_REVISION", value: "" }, "reserved_name"],
    ["without a source", { name: "A" }, "exactly_one_source"],
    ["with two sources", { name: "A", value: "x", connection: db }, "exactly_one_source"],
    ["for a sensitive alias", { name: "A", aliasTarget: "B", sensitive: true }, "sensitive_requires_literal"],
    [
      "for a connection that says sensitive",
      { name: "A", connection: db, sensitive: false },
      "sensitive_requires_literal",
    ],
    ["for a value over 64 KiB", { name: "A", value: `${"é".repeat(32 * 1024)}x` }, "value_too_large"],
    ["for a value with a NUL", { name: "A", value: "a\0b" }, "value_invalid"],
    ["for an alias to itself", { name: "A", aliasTarget: "A" }, "alias_self_reference"],
    ["for an alias to no possible name", { name: "A", aliasTarget: "b-c" }, "invalid_name"],
    [
      "for an alias to the reserved name",
      { name: "A", aliasTarget: "PLATFORM_VARIABLES_REVISION" },
      "reserved_name",
    ],
    ["for a connection to no service", { name: "A", connection: { service: "", key: "URL" } }, "required"],
    [
      "for a connection to a name that no service can have",
      { name: "A", connection: { service: "My_DB", key: "URL" } },
      "invalid_name",
    ],
    [
      "for a connection to a key that no addon can publish",
      { name: "A", connection: { service: "db", key: "a key" } },
      "invalid_key",
    ],
  ];
  test.each(cases)("%s", async (_what, given, reason) => {
    const { P, editor, reader } = scene();
    expect(await refused(editor.createVariable({ ...P, ...given }))).toBe(`422 validation_failed ${reason}`);
    expect((await reader.listVariables(P)).data).toEqual([]);
  });

  test("for a name that exists, and only in the same scope and case", async () => {
    const { P, E, editor } = scene();
    await editor.createVariable({ ...P, name: "A", value: "1" });
    expect(await refused(editor.createVariable({ ...P, name: "A", aliasTarget: "B" }))).toBe(
      "409 variable_exists",
    );
    await editor.createVariable({ ...P, name: "a", value: "2" });
    await editor.createVariable({ ...E, name: "A", value: "3" });
    await editor.createVariable({ ...P, name: "platform_variables_revision", value: "4" });
  });

  test("by callers below editor", async () => {
    const { P, reader } = scene();
    expect(await refused(reader.createVariable({ ...P, name: "A", value: "" }))).toBe("403 forbidden");
  });
});

test("values at the bounds are kept exactly", async () => {
  const { P, editor, reader } = scene();
  const values = ["", " ", "x".repeat(64 * 1024), "é".repeat(32 * 1024), "\u{1F6A2}\n\t\u0001", "$OTHER"];
  for (const [i, value] of values.entries()) {
    await editor.createVariable({ ...P, name: `V${i}`, value, sensitive: i % 2 === 0 });
    expect((await reader.revealVariable({ ...P, variableName: `V${i}` })).value).toBe(value);
  }
});

describe("a patch", () => {
  test("changes what its kind allows and nothing else", async () => {
    const { E, editor } = scene();
    await editor.createVariable({ ...E, name: "L", value: "x" });
    await editor.createVariable({ ...E, name: "A", aliasTarget: "L" });
    await editor.createVariable({ ...E, name: "C", connection: { service: "db", key: "HOST" } });
    const patch = (variableName: string, given: object) =>
      editor.updateVariable({ ...E, variableName, ...given });
    expect(await refused(patch("L", {}))).toBe("422 validation_failed empty_patch");
    expect(await refused(patch("L", { value: "1", aliasTarget: "B" }))).toBe(
      "422 validation_failed exactly_one_source",
    );
    expect(await refused(patch("L", { aliasTarget: "B" }))).toBe("422 validation_failed kind_mismatch");
    expect(await refused(patch("A", { value: "1" }))).toBe("422 validation_failed kind_mismatch");
    expect(await refused(patch("A", { connection: { service: "db", key: "URL" } }))).toBe(
      "422 validation_failed kind_mismatch",
    );
    expect(await refused(patch("C", { sensitive: true }))).toBe(
      "422 validation_failed sensitive_requires_literal",
    );
    expect(await refused(patch("A", { aliasTarget: "A" }))).toBe(
      "422 validation_failed alias_self_reference",
    );
    expect(await refused(patch("L", { value: "x".repeat(65537) }))).toBe(
      "422 validation_failed value_too_large",
    );
    expect(await refused(patch("NONE", { value: "1" }))).toBe("404 not_found");
    expect(await patch("A", { aliasTarget: "B" })).toMatchObject({ aliasTarget: "B" });
    expect(await patch("C", { connection: { service: "db2", key: "PORT" } })).toMatchObject({
      connection: { service: "db2", key: "PORT" },
    });
    expect(await patch("L", { value: "y", sensitive: true })).toMatchObject({ sensitive: true });
    expect((await patch("L", { value: "z" })).value).toBeUndefined();
    expect(await patch("L", { sensitive: false })).toMatchObject({ sensitive: false, value: "z" });
  });

  test("with If-Match goes through once; the slower writer and the slower deleter are refused", async () => {
    const { P, editor, reader } = scene();
    await editor.createVariable({ ...P, name: "X", value: "1" });
    const at = { ...P, variableName: "X" };
    const read = headers();
    await reader.getVariable(at, read.options);
    const match = { "if-match": read.got.etag! };
    const first = headers(match);
    await editor.updateVariable({ ...at, value: "2" }, first.options);
    expect(await refused(editor.updateVariable({ ...at, value: "3" }, { headers: match }))).toBe(
      "409 revision_conflict",
    );
    expect(await refused(editor.deleteVariable({ ...at, confirmImpact: true }, { headers: match }))).toBe(
      "409 revision_conflict",
    );
    const again = headers({ "if-none-match": `"other", W/${first.got.etag}` });
    await reader.getVariable(at, again.options);
    expect(again.got).toEqual({ etag: first.got.etag, notModified: true });
    await editor.deleteVariable({ ...at, confirmImpact: true }, { headers: { "if-match": first.got.etag! } });
  });
});

test("an alias and a connection are sensitive when their target is", async () => {
  const { P, E, S, editor, reader } = scene({ web: "web", db: "postgres" });
  await editor.createVariable({ ...P, name: "SECRET", value: "s", sensitive: true });
  await editor.createVariable({ ...E, name: "VIA", aliasTarget: "SECRET" });
  const made = await editor.createVariable({ ...S, name: "FAR", aliasTarget: "VIA" });
  expect(made.sensitive).toBe(true);
  const read = headers();
  await reader.getVariable({ ...S, variableName: "FAR" }, read.options);
  await editor.updateVariable({ ...P, variableName: "SECRET", sensitive: false });
  const again = headers({ "if-none-match": read.got.etag! });
  expect((await reader.getVariable({ ...S, variableName: "FAR" }, again.options)).sensitive).toBe(false);
  expect(again.got.notModified).toBe(false);
  for (const [key, sensitive] of [
    ["PASSWORD", true],
    ["URL", true],
    ["HOST", false],
  ] as const) {
    const connection = { service: "db", key };
    expect(await editor.createVariable({ ...P, name: `C_${key}`, connection })).toMatchObject({ sensitive });
  }
  await editor.createVariable({ ...P, name: "TO_URL", aliasTarget: "C_URL" });
  await editor.createVariable({ ...P, name: "TO_NOTHING", aliasTarget: "NOBODY" });
  const { data } = await reader.listVariables(P);
  const told = Object.fromEntries(data.map((variable) => [variable.name, variable.sensitive]));
  expect(told).toMatchObject({ TO_URL: true, TO_NOTHING: false, SECRET: false, C_HOST: false });
});

test("a scope of another account or project, or of none, is 404", async () => {
  const [mine, other] = [scene(), scene()];
  const foreign = { ...mine.P, projectId: other.projectId };
  const crossed = { ...mine.E, environmentId: other.environmentId };
  const nobody = { ...mine.E, service: "nobody" };
  for (const path of [foreign, crossed, nobody, { ...mine.P, projectId: "prj_x\0" }])
    expect(await refused(mine.reader.listVariables(path))).toMatch(
      /^(404 not_found|422 validation_failed invalid_text)$/,
    );
  expect(await refused(mine.editor.createVariable({ ...crossed, name: "A" }))).toBe("404 not_found");
  expect(await refused(other.editor.createVariable({ ...mine.P, name: "A", value: "" }))).toBe(
    "403 forbidden",
  );
});

test("a write that waits too long for another one is refused as unavailable, and leaves nothing", async () => {
  const { P, accountId, editor, reader } = scene();
  await editor.createVariable({ ...P, name: "KEPT", value: "1" });
  const impatient = await world.startOne({ DATABASE_LOCK_TIMEOUT_MS: "100" });
  const blocker = await world.pool.connect();
  await blocker.query("begin");
  await blocker.query("select from scopes where id = $1 for update", [P.projectId]);
  const waiting = world
    .as(accountId, "editor", impatient.port)
    .createVariable({ ...P, name: "NEW", value: "2" });
  expect(await refused(waiting)).toBe("503 unavailable");
  await blocker.query("rollback");
  blocker.release();
  await impatient.stop();
  expect((await reader.listVariables(P)).data.map(({ name }) => name)).toEqual(["KEPT"]);
});
