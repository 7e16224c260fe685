import { describe, expect, test } from "vitest";
import { type DanglingReason, resolvedSize, type VariableRow } from "./resolve.ts";
import { alias, connection, literal, reasons, resolved, row, SCOPES, values } from "./testing.ts";

describe("entries", () => {
  test("an override shows where it came from and everything it hides", () => {
    const { data } = resolved(
      literal("project", "LEVEL", "info"),
      literal("service", "LEVEL", "debug", true),
      literal("environment", "LEVEL", "warn"),
    );
    expect(data).toStrictEqual([
      {
        name: "LEVEL",
        sensitive: true,
        value: "debug",
        source: "service",
        sourceId: "var_service_LEVEL",
        sourceScopeId: "service_1",
        shadows: [
          { scope: "environment", scopeId: "environment_1", id: "var_environment_LEVEL" },
          { scope: "project", scopeId: "project_1", id: "var_project_LEVEL" },
        ],
      },
    ]);
  });

  test("a connection shows its addon and key, an alias its target, and an empty value is a value", () => {
    const { data } = resolved(
      connection("environment", "H", "db", "HOST"),
      alias("service", "A", "E"),
      literal("project", "E", ""),
    );
    expect(
      data.map(({ name, value, connection, aliasTarget }) => [name, value, connection, aliasTarget]),
    ).toEqual([
      ["A", "", undefined, "E"],
      ["E", "", undefined, undefined],
      ["H", "10.0.0.1", { service: "db", key: "HOST" }, undefined],
    ]);
  });

  test("PASSWORD and URL of an addon are sensitive, also through an alias; HOST is not", () => {
    const { data } = resolved(
      connection("project", "U", "db", "URL"),
      connection("project", "P", "db", "PASSWORD"),
      connection("project", "H", "db", "HOST"),
      alias("project", "AU", "U"),
      alias("service", "AAU", "AU"),
      alias("project", "AH", "H"),
    );
    expect(data.filter(({ sensitive }) => sensitive).map(({ name }) => name)).toEqual([
      "AAU",
      "AU",
      "P",
      "U",
    ]);
  });

  test("rows as the database gives them, with null for the members of other kinds, mean the same", () => {
    const none = { value: null, connectionService: null, connectionKey: null, aliasTarget: null };
    const rows = [
      { ...literal("project", "L", "v"), ...none, value: "v" },
      { ...row("project", "A", none), aliasTarget: "L" },
      { ...row("project", "H", none), connectionService: "db", connectionKey: "HOST" },
    ];
    expect(resolved(...rows)).toStrictEqual(
      resolved(
        literal("project", "L", "v"),
        alias("project", "A", "L"),
        connection("project", "H", "db", "HOST"),
      ),
    );
  });

  test("without values the same names, sources and sensitivities come out, and no value", () => {
    const { data } = resolved(row("project", "L", { sensitive: true }), alias("service", "A", "L"));
    expect(data.map((entry) => [entry.name, entry.sensitive, "value" in entry])).toEqual([
      ["A", true, false],
      ["L", true, false],
    ]);
  });

  test("names that mean something to JavaScript are ordinary names", () => {
    const result = resolved(
      literal("project", "__proto__", "a"),
      alias("service", "constructor", "__proto__"),
    );
    expect(result.data.map(({ name, value }) => [name, value])).toEqual([
      ["__proto__", "a"],
      ["constructor", "a"],
    ]);
    expect(reasons(resolved(alias("project", "A", "toString")))).toEqual({ A: "alias_target_not_found" });
  });
});

describe("aliases across scopes", () => {
  test("a project alias follows the override of its target in one environment", () => {
    const wide = [alias("project", "DATABASE", "PRIMARY_URL"), literal("project", "PRIMARY_URL", "a")];
    expect(values(resolved(...wide))).toMatchObject({ DATABASE: "a" });
    expect(values(resolved(...wide, literal("environment", "PRIMARY_URL", "b")))).toMatchObject({
      DATABASE: "b",
    });
  });

  test("a service that points the target back at the alias gets a cycle, not the shadowed value", () => {
    const result = resolved(
      alias("project", "A", "B"),
      literal("project", "B", "hidden"),
      alias("service", "B", "A"),
    );
    expect(result.data).toEqual([]);
    expect(reasons(result)).toEqual({ A: "alias_cycle", B: "alias_cycle" });
  });

  test("an override of an alias takes the alias out of the cycle it was in", () => {
    const cycle = [alias("project", "A", "B"), alias("project", "B", "A")];
    expect(values(resolved(...cycle, literal("service", "B", "v")))).toEqual({ A: "v", B: "v" });
  });
});

describe("what dangles says why", () => {
  const cases: [DanglingReason, string, VariableRow[]][] = [
    ["service_not_found", "no such service", [connection("project", "X", "gone", "URL")]],
    ["service_not_addon", "a web service", [connection("project", "X", "api", "URL")]],
    ["service_not_addon", "a worker, even with such a key", [connection("project", "X", "jobs", "HOST")]],
    ["key_not_found", "a key the addon does not publish", [connection("project", "X", "db", "NONE")]],
    ["key_not_found", "a key that waiting will not bring", [connection("project", "X", "cache", "NONE")]],
    ["service_not_ready", "an addon that is not ready", [connection("project", "X", "cache", "HOST")]],
    ["service_not_ready", "an addon without keys as yet", [connection("project", "X", "fresh", "URL")]],
    ["alias_target_not_found", "no such variable", [alias("project", "X", "Y")]],
    [
      "alias_target_dangling",
      "a target that dangles",
      [alias("project", "X", "Y"), connection("project", "Y", "gone", "URL")],
    ],
    [
      "alias_target_dangling",
      "a target in a cycle that the alias is no part of",
      [alias("project", "X", "Y"), alias("project", "Y", "Z"), alias("project", "Z", "Y")],
    ],
    ["alias_cycle", "itself", [alias("project", "X", "X")]],
    [
      "alias_cycle",
      "a round of three across the scopes",
      [alias("project", "X", "Y"), alias("environment", "Y", "Z"), alias("service", "Z", "X")],
    ],
  ];
  test.each(cases)("%s: %s", (reason, _, rows) => {
    const { data, dangling } = resolved(...rows);
    const { connectionService, connectionKey, aliasTarget } = rows[0]!;
    expect(data.map((entry) => entry.name)).not.toContain("X");
    expect(dangling.find((entry) => entry.name === "X")).toStrictEqual({
      name: "X",
      ...(aliasTarget === undefined
        ? { connection: { service: connectionService, key: connectionKey } }
        : { aliasTarget }),
      reason,
    });
  });

  const chain = (length: number) =>
    Array.from({ length }, (_, at) => alias(SCOPES[at % 3]!, `L${at + 1}`, `L${at}`));

  test("ten aliases in a row resolve, the eleventh and all behind it are alias_depth_exceeded", () => {
    const result = resolved(literal("project", "L0", "v", true), ...chain(12));
    expect(result.data).toHaveLength(11);
    expect(new Set(result.data.map(({ value, sensitive }) => `${value} ${sensitive}`))).toEqual(
      new Set(["v true"]),
    );
    expect(reasons(result)).toEqual({ L11: "alias_depth_exceeded", L12: "alias_depth_exceeded" });
  });

  test("a thousand names per scope in one chain or one cycle come to an end", () => {
    const long = resolved(literal("project", "L0", "v"), ...chain(2999));
    expect([long.data.length, long.dangling.length]).toEqual([11, 2989]);
    const round = resolved(alias("project", "L0", "L2999"), ...chain(2999));
    expect(round.dangling.filter(({ reason }) => reason === "alias_cycle")).toHaveLength(3000);
  });
});

test("the size counts the UTF-8 bytes of names and values", () => {
  const data = [{ name: "A", value: "é€😀" }, { name: "BC", value: "" }, { name: "D" }];
  expect(resolvedSize(data)).toBe(1 + 9 + 2 + 1);
  expect(resolvedSize([])).toBe(0);
});
