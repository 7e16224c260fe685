import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Addon,
  aliasCycle,
  type DanglingReason,
  fingerprint,
  type Resolved,
  type ResolvedEntry,
  resolve,
  resolvedSize,
  type Scope,
  type VariableRow,
} from "./resolve.ts";

type Origin = Pick<
  VariableRow,
  "value" | "sensitive" | "connectionService" | "connectionKey" | "aliasTarget"
>;

const SCOPES: Scope[] = ["service", "environment", "project"];

const row = (scope: Scope, name: string, origin: Partial<Origin>): VariableRow => ({
  id: `var_${scope}_${name}`,
  name,
  scope,
  scopeId: `${scope}_1`,
  sensitive: false,
  ...origin,
});
const literal = (scope: Scope, name: string, value: string, sensitive = false) =>
  row(scope, name, { value, sensitive });
const alias = (scope: Scope, name: string, aliasTarget: string) => row(scope, name, { aliasTarget });
const connection = (scope: Scope, name: string, connectionService: string, connectionKey: string) =>
  row(scope, name, { connectionService, connectionKey });

const ADDONS = new Map<string, Addon>([
  [
    "db",
    {
      type: "postgres",
      ready: true,
      keys: new Map([
        ["HOST", { value: "10.0.0.1", sensitive: false }],
        ["URL", { value: "postgres://u:p@10.0.0.1/d", sensitive: false }],
        ["PASSWORD", { value: "p", sensitive: false }],
        ["TOKEN", { value: "t", sensitive: true }],
      ]),
    },
  ],
  ["cache", { type: "redis", ready: false, keys: new Map([["HOST", { value: "x", sensitive: false }]]) }],
  ["fresh", { type: "postgres", ready: false, keys: new Map() }],
  ["api", { type: "web", ready: true, keys: new Map() }],
  ["jobs", { type: "worker", ready: true, keys: new Map([["HOST", { value: "x", sensitive: false }]]) }],
]);

const resolved = (...rows: VariableRow[]) => resolve({ rows, addons: ADDONS });
const values = ({ data }: Resolved) => Object.fromEntries(data.map(({ name, value }) => [name, value]));
const reasons = ({ dangling }: Resolved) =>
  Object.fromEntries(dangling.map(({ name, reason }) => [name, reason]));

// Any three scopes, heavy on aliases so that chains, cycles, dead ends and shadowing all occur often. Values carry
// the row they stand in, so a value in a result tells which row it came from.
const NAMES = Array.from({ length: 14 }, (_, index) => `N${index}`);
const name = fc.constantFrom(...NAMES);
const origin: fc.Arbitrary<Partial<Origin>> = fc.oneof(
  { weight: 2, arbitrary: fc.boolean().map((sensitive) => ({ value: "", sensitive })) },
  {
    weight: 2,
    arbitrary: fc.record({
      connectionService: fc.constantFrom("db", "cache", "fresh", "api", "jobs", "gone"),
      connectionKey: fc.constantFrom("HOST", "URL", "PASSWORD", "TOKEN", "NONE"),
    }),
  },
  { weight: 8, arbitrary: name.map((aliasTarget) => ({ aliasTarget })) },
);
const anyRows = fc
  .uniqueArray(fc.record({ scope: fc.constantFrom(...SCOPES), name, origin }), {
    selector: (entry) => `${entry.scope} ${entry.name}`,
    maxLength: 42,
  })
  .map((entries) =>
    entries.map((entry) => {
      const made = row(entry.scope, entry.name, entry.origin);
      return made.value === undefined ? made : { ...made, value: `value of ${made.id}` };
    }),
  );

// Straight chains of every length, each link at any scope: random targets hardly ever make eleven in a row.
const chainRows = fc
  .tuple(
    fc.integer({ min: 0, max: 13 }),
    fc.array(fc.constantFrom(...SCOPES), { minLength: 14, maxLength: 14 }),
    fc.boolean(),
  )
  .map(([length, scopes, sensitive]) => [
    ...NAMES.slice(0, length).map((link, at) => alias(scopes[at]!, link, NAMES[at + 1]!)),
    literal(scopes[length]!, NAMES[length]!, "end", sensitive),
  ]);
const someRows = fc.oneof({ weight: 3, arbitrary: anyRows }, { weight: 1, arbitrary: chainRows });

type Expected = { reason: DanglingReason } | { value: string | undefined; sensitive: boolean };

/** The rules once more, the slow way: one name at a time, the whole way walked again for each. */
function model(rows: VariableRow[], start: string): Expected {
  const effective = (wanted: string) =>
    SCOPES.flatMap((scope) => rows.filter((each) => each.scope === scope && each.name === wanted))[0];
  const way = [start];
  let last = effective(start)!;
  while (last.aliasTarget !== undefined) {
    const next = effective(last.aliasTarget!);
    if (next === undefined)
      return { reason: way.length === 1 ? "alias_target_not_found" : "alias_target_dangling" };
    if (way.includes(next.name))
      return { reason: next.name === start ? "alias_cycle" : "alias_target_dangling" };
    way.push(next.name);
    last = next;
  }
  const end = modelSource(last);
  const hops = way.length - 1;
  if ("reason" in end) return hops === 0 ? end : { reason: "alias_target_dangling" };
  return hops > 10 ? { reason: "alias_depth_exceeded" } : end;
}

function modelSource({ connectionService: service, connectionKey: key, ...rest }: VariableRow): Expected {
  if (!service || !key) return { value: rest.value!, sensitive: rest.sensitive };
  switch (service) {
    case "gone":
      return { reason: "service_not_found" };
    case "api":
    case "jobs":
      return { reason: "service_not_addon" };
    case "fresh":
      return { reason: "service_not_ready" };
    case "cache":
      return { reason: key === "HOST" ? "service_not_ready" : "key_not_found" };
    default:
      if (key === "NONE") return { reason: "key_not_found" };
      return { value: ADDONS.get("db")!.keys.get(key)!.value, sensitive: key !== "HOST" };
  }
}

describe("for any three scopes", () => {
  test("every name is in exactly one of data and dangling, both sorted by name", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data, dangling } = resolved(...rows);
        const inData = data.map((entry) => entry.name);
        const inDangling = dangling.map((entry) => entry.name);
        expect([...inData, ...inDangling].sort()).toEqual([...new Set(rows.map((each) => each.name))].sort());
        expect(inData).toEqual([...inData].sort());
        expect(inDangling).toEqual([...inDangling].sort());
      }),
    );
  });

  test("every value, sensitivity and dangling reason is the one of the rules followed step by step", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data, dangling } = resolved(...rows);
        for (const { name, value, sensitive } of data)
          expect([name, { value, sensitive }]).toEqual([name, model(rows, name)]);
        for (const { name, reason } of dangling)
          expect([name, { reason }]).toEqual([name, model(rows, name)]);
      }),
      { numRuns: 500 },
    );
  });

  test("the nearest scope wins and the wider rows are its shadows, nearest first", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        for (const entry of resolved(...rows).data) {
          const ranked = SCOPES.flatMap((scope) =>
            rows.filter((each) => each.scope === scope && each.name === entry.name),
          );
          expect([entry.sourceId, ...entry.shadows.map(({ id }) => id)]).toEqual(ranked.map(({ id }) => id));
          expect(entry).toMatchObject({ source: ranked[0]!.scope, sourceScopeId: ranked[0]!.scopeId });
        }
      }),
    );
  });

  test("a shadowed wider row never appears in data, neither itself nor its value", () => {
    fc.assert(
      fc.property(anyRows, (rows) => {
        const { data } = resolved(...rows);
        for (const hidden of rows) {
          const nearer = rows.some(
            (each) => each.name === hidden.name && SCOPES.indexOf(each.scope) < SCOPES.indexOf(hidden.scope),
          );
          if (!nearer) continue;
          expect(data.map(({ sourceId }) => sourceId)).not.toContain(hidden.id);
          expect(data.map(({ value }) => value)).not.toContain(`value of ${hidden.id}`);
        }
      }),
    );
  });

  test("an alias has the value and the sensitivity of the variable under its target's name", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const { data } = resolved(...rows);
        const byName = new Map(data.map((entry) => [entry.name, entry]));
        for (const { aliasTarget, value, sensitive } of data) {
          if (aliasTarget !== undefined) expect(byName.get(aliasTarget)).toMatchObject({ value, sensitive });
        }
      }),
    );
  });

  test("a sensitive value is never marked plain, however long the chain to it", () => {
    fc.assert(
      fc.property(someRows, (rows) => {
        const secrets = new Set<unknown>(["p", "t", "postgres://u:p@10.0.0.1/d"]);
        for (const { sensitive, value } of rows) if (sensitive) secrets.add(value);
        for (const { sensitive, value } of resolved(...rows).data) expect(sensitive).toBe(secrets.has(value));
      }),
    );
  });

  test("the order of the rows does not matter", () => {
    const shuffled = someRows.chain((rows) =>
      fc.tuple(fc.constant(rows), fc.shuffledSubarray(rows, { minLength: rows.length })),
    );
    fc.assert(
      fc.property(shuffled, ([rows, other]) => {
        expect(resolved(...other)).toEqual(resolved(...rows));
        expect(fingerprint(resolved(...other).data, "k")).toBe(fingerprint(resolved(...rows).data, "k"));
      }),
    );
  });
});

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

describe("a write that closes a cycle of aliases", () => {
  test("is found in its own scope and through the wider ones, with the names on the way", () => {
    expect(aliasCycle([alias("project", "B", "A")], alias("project", "A", "B"))).toEqual(["A", "B"]);
    const stored = [alias("project", "B", "C"), alias("environment", "C", "A")];
    expect(aliasCycle(stored, alias("service", "A", "B"))).toEqual(["A", "B", "C"]);
    expect(aliasCycle([], alias("project", "A", "A"))).toEqual(["A"]);
  });

  test("is not one when a nearer row only would close it, or an override breaks it", () => {
    expect(aliasCycle([alias("environment", "B", "A")], alias("project", "A", "B"))).toBeUndefined();
    const broken = [alias("project", "B", "A"), literal("environment", "B", "v")];
    expect(aliasCycle(broken, alias("environment", "A", "B"))).toBeUndefined();
    expect(aliasCycle([alias("project", "B", "A")], literal("project", "A", "v"))).toBeUndefined();
  });

  test("counts the row it replaces as gone", () => {
    const stored = [alias("project", "A", "B"), literal("project", "B", "v"), literal("project", "C", "v")];
    expect(aliasCycle(stored, alias("project", "B", "A"))).toEqual(["B", "A"]);
    expect(
      aliasCycle([alias("project", "B", "A"), alias("project", "A", "B")], alias("project", "A", "C")),
    ).toBe(undefined);
  });

  test("is not one when it only leads into a cycle that was there", () => {
    const stored = [alias("project", "B", "C"), alias("environment", "C", "B")];
    expect(aliasCycle(stored, alias("environment", "A", "B"))).toBeUndefined();
  });

  test("is found among the rows of one batch", () => {
    const batch = [literal("project", "X", "v"), alias("project", "A", "B"), alias("project", "B", "A")];
    expect(aliasCycle([], ...batch)).toEqual(["A", "B"]);
    expect(aliasCycle(batch.slice(1), literal("project", "X", "v"))).toBeUndefined();
  });

  test("agrees with resolution at service scope: the candidate would be alias_cycle", () => {
    const writes = fc.tuple(anyRows, name, name).filter(([, from, to]) => from !== to);
    fc.assert(
      fc.property(writes, ([rows, from, to]) => {
        const candidate = alias("service", from, to);
        const others = rows.filter((each) => each.scope !== "service" || each.name !== from);
        const cycle = aliasCycle(rows, candidate);
        expect(cycle !== undefined).toBe(reasons(resolved(...others, candidate))[from] === "alias_cycle");
        if (cycle !== undefined) expect(cycle[0]).toBe(from);
      }),
      { numRuns: 500 },
    );
  });
});

describe("size and fingerprint", () => {
  const entries = (pairs: [string, string?][]) =>
    pairs.map(([name, value]) => ({ name, value })) as Pick<ResolvedEntry, "name" | "value">[];

  test("the size counts the UTF-8 bytes of names and values", () => {
    expect(resolvedSize(entries([["A", "é€😀"], ["BC", ""], ["D"]]))).toBe(1 + 9 + 2 + 1);
    expect(resolvedSize([])).toBe(0);
  });

  test("the fingerprint is the same exactly for the same names and values, whatever they came from", () => {
    const set = fc.dictionary(fc.stringMatching(/^[AB]{1,2}$/), fc.stringMatching(/^[AB,"]{0,2}$/), {
      maxKeys: 3,
    });
    fc.assert(
      fc.property(set, set, (one, other) => {
        const first = fingerprint(entries(Object.entries(one)), "k");
        const second = fingerprint(entries(Object.entries(other).reverse()), "k");
        const same =
          JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
        expect(first === second).toBe(same);
      }),
      { numRuns: 1000 },
    );
  });

  test("the fingerprint is 64 hex digits and another one under another key", () => {
    const data = entries([["A", "1"]]);
    expect(fingerprint(data, "k")).toMatch(/^[0-9a-f]{64}$/);
    expect(fingerprint(data, "k")).not.toBe(fingerprint(data, Buffer.from("other")));
  });

  test("a set read by names only has no fingerprint", () => {
    expect(() => fingerprint(entries([["SECRET_NAME"]]), "k")).toThrow(TypeError);
  });
});
