import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Answer, refusal } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
let P: string;
let E: string;
let S: string;

beforeAll(async () => {
  world = await startWorld();
  const made = await world.environment();
  [P, E, S] = [made.P, made.E, made.S("web")];
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
});

afterAll(() => world.stop());

type Variable = {
  id: string;
  name: string;
  value?: string;
  sensitive: boolean;
  scope: string;
  scopeId: string;
};
type Page = { data: Variable[]; page: { nextCursor: string; hasMore: boolean } };
type Resolved = {
  data: { name: string; value?: string; sensitive: boolean; source: string; shadows: { scope: string }[] }[];
  dangling: { name: string; reason: string }[];
};

/** A project of its own, so that tests do not see each other's names. */
async function fresh(services: { name: string; type: string }[] = [{ name: "web", type: "web" }]) {
  const made = await world.environment();
  for (const service of services) await world.must("POST", `${made.E}/services`, service);
  return { ...made, web: made.S("web") };
}

describe("the same operations hold at project, environment and service scope", () => {
  for (const [scope, base] of [
    ["project", () => P],
    ["environment", () => E],
    ["service", () => S],
  ] as const)
    test(`at ${scope} scope`, async () => {
      const B = base();
      const name = `ROUND_${scope.toUpperCase()}`;
      const created = await world.call<Variable>("POST", `${B}/variables`, { name, value: "one" });
      expect(created.status).toBe(200);
      expect(created.body).toMatchObject({ name, scope, sensitive: false, value: "one" });
      expect(created.body.id).toMatch(/^var_[0-9a-z]{26}$/);
      expect(
        new Date((created.body as unknown as { createdAt: string }).createdAt).getTime(),
      ).toBeGreaterThan(0);
      expect((await world.must<Variable>("GET", `${B}/variables/${name}`)).value).toBe("one");
      const changed = await world.must<Variable>("PATCH", `${B}/variables/${name}`, { value: "two" });
      expect(changed).toMatchObject({ id: created.body.id, value: "two" });
      const hidden = await world.must<Variable>("PATCH", `${B}/variables/${name}`, { sensitive: true });
      expect(hidden).toMatchObject({ sensitive: true });
      expect(hidden).not.toHaveProperty("value");
      const listed = await world.must<Page>("GET", `${B}/variables?limit=100`);
      expect(listed.data.find((v) => v.name === name)).not.toHaveProperty("value");
      expect(await world.must("POST", `${B}/variables/${name}/reveal`)).toEqual({ name, value: "two" });
      const batch = await world.must("POST", `${B}/variables/batch`, {
        set: [
          { name, value: "three" },
          { name: `${name}_B`, value: "b" },
        ],
        unset: ["NEVER_THERE"],
        confirmImpact: true,
      });
      expect(batch).toMatchObject({ applied: 2, removed: 0 });
      expect((batch.data as Variable[]).find((v) => v.name === name)).toMatchObject({ sensitive: true });
      const gone = await world.call("DELETE", `${B}/variables/${name}?confirmImpact=true`);
      expect([gone.status, gone.body]).toEqual([204, {}]);
      expect(refusal(await world.call("GET", `${B}/variables/${name}`))).toBe("404 not_found");
    });
});

describe("every refusal names its code and reason", () => {
  const long = "x".repeat(64 * 1024 + 1);
  const create: [string, unknown, string][] = [
    ["a name that starts with a digit", { name: "1A", value: "x" }, "422 invalid_name"],
    ["a name of 129 characters", { name: "A".repeat(129), value: "x" }, "422 invalid_name"],
    ["an empty name", { name: "", value: "x" }, "422 invalid_name"],
    ["no name", { value: "x" }, "422 invalid_name"],
    ["the reserved name", { name: "PLATFORM_VARIABLES_REVISION", value: "x" }, "422 reserved_name"],
    ["no source", { name: "A" }, "422 exactly_one_source"],
    ["two sources", { name: "A", value: "x", aliasTarget: "B" }, "422 exactly_one_source"],
    ["a sensitive alias", { name: "A", aliasTarget: "B", sensitive: true }, "422 sensitive_requires_literal"],
    [
      "a sensitive connection",
      { name: "A", connection: { service: "db", key: "URL" }, sensitive: true },
      "422 sensitive_requires_literal",
    ],
    ["a value over 64 KiB", { name: "A", value: long }, "422 value_too_large"],
    ["a value with a NUL", { name: "A", value: "a\u0000b" }, "422 value_invalid"],
    ["an alias to itself", { name: "A", aliasTarget: "A" }, "422 alias_self_reference"],
    ["an unknown member", { name: "A", value: "x", colour: "red" }, "422 unknown_field"],
    [
      "an unknown member inside",
      { name: "A", connection: { service: "db", key: "URL", x: 1 } },
      "422 unknown_field",
    ],
    ["a member of the path", { name: "A", value: "x", accountId: "acc_other" }, "422 unknown_field"],
    ["a value that is no text", { name: "A", value: 5 }, "422 invalid_type"],
    ["a read-only member", { name: "A", value: "x", id: "var_1" }, "422 unknown_field"],
  ];
  for (const [what, body, expected] of create)
    test(`create with ${what}: ${expected}`, async () => {
      expect(refusal(await world.call("POST", `${P}/variables`, body))).toBe(expected);
    });

  const batch: [string, Record<string, unknown>, string][] = [
    [
      "501 names",
      { set: Array.from({ length: 501 }, (_, i) => ({ name: `N${i}`, value: "x" })) },
      "422 batch_too_large",
    ],
    [
      "a name twice in set",
      {
        set: [
          { name: "D", value: "1" },
          { name: "D", value: "2" },
        ],
      },
      "422 duplicate_name",
    ],
    [
      "a name in both lists",
      { set: [{ name: "D", value: "1" }], unset: ["D"], confirmImpact: true },
      "422 duplicate_name",
    ],
    ["a bad name", { set: [{ name: "9", value: "1" }] }, "422 invalid_name"],
    ["an entry without a source", { set: [{ name: "D" }] }, "422 exactly_one_source"],
    ["an unset without confirmation", { unset: ["D"] }, "409 impact_confirmation_required"],
    [
      "a cycle inside it",
      {
        set: [
          { name: "C1", aliasTarget: "C2" },
          { name: "C2", aliasTarget: "C1" },
        ],
      },
      "422 alias_cycle",
    ],
  ];
  for (const [what, body, expected] of batch)
    test(`batch with ${what}: ${expected}`, async () => {
      expect(refusal(await world.call("POST", `${P}/variables/batch`, body))).toBe(expected);
    });

  test("a name that exists: 409 variable_exists, also for two at once", async () => {
    const { P } = await fresh();
    const both = await Promise.all(
      ["a", "b"].map((value) => world.call("POST", `${P}/variables`, { name: "TWICE", value })),
    );
    expect(both.map((a) => a.status).sort()).toEqual([200, 409]);
    expect(refusal(both.find((a) => a.status === 409)!)).toBe("409 variable_exists");
  });

  test("patches: empty, another kind, two sources, sensitive alias", async () => {
    const { P } = await fresh();
    await world.must("POST", `${P}/variables`, { name: "L", value: "x" });
    await world.must("POST", `${P}/variables`, { name: "A", aliasTarget: "L" });
    const patch = async (name: string, body: unknown) =>
      refusal(await world.call("PATCH", `${P}/variables/${name}`, body));
    expect(await patch("L", {})).toBe("422 empty_patch");
    expect(await patch("L", { aliasTarget: "M" })).toBe("422 kind_mismatch");
    expect(await patch("A", { value: "x" })).toBe("422 kind_mismatch");
    expect(await patch("L", { value: "x", aliasTarget: "M" })).toBe("422 exactly_one_source");
    expect(await patch("A", { sensitive: true })).toBe("422 sensitive_requires_literal");
    expect(await patch("A", { aliasTarget: "A" })).toBe("422 alias_self_reference");
    expect(await patch("NOPE", { value: "x" })).toBe("404 not_found");
  });

  test("a cycle within the scope chain: 422 alias_cycle", async () => {
    const { P, E } = await fresh();
    await world.must("POST", `${P}/variables`, { name: "ONE", aliasTarget: "TWO" });
    const answer = await world.call("POST", `${E}/variables`, { name: "TWO", aliasTarget: "ONE" });
    expect(refusal(answer)).toBe("422 alias_cycle");
  });

  test("a cycle that only a service's own variables close is allowed, and the answer names the service", async () => {
    const { P, E, web } = await fresh();
    const { id: serviceId } = await world.must<{ id: string }>("GET", web);
    await world.must("POST", `${web}/variables`, { name: "TWO", aliasTarget: "ONE" });
    const made = await world.must("POST", `${P}/variables`, { name: "ONE", aliasTarget: "TWO" });
    const environmentId = E.split("/").at(-1);
    const warning = {
      reason: "alias_cycle",
      serviceId,
      name: "web",
      environmentId,
      cycle: ["ONE", "TWO"],
    };
    expect(made.warnings).toEqual([warning]);
    expect(await world.must("GET", `${P}/variables/ONE`)).not.toHaveProperty("warnings");
    const patched = await world.must("PATCH", `${P}/variables/ONE`, { aliasTarget: "THREE" });
    expect(patched.warnings).toEqual([]);
    const set = [{ name: "ONE", aliasTarget: "TWO" }];
    expect((await world.must("POST", `${P}/variables/batch`, { set })).warnings).toEqual([warning]);
    const { dangling } = await world.must("GET", `${web}/resolved-variables`);
    expect(dangling).toEqual([
      { name: "ONE", aliasTarget: "TWO", reason: "alias_cycle" },
      { name: "TWO", aliasTarget: "ONE", reason: "alias_cycle" },
    ]);
  });

  test("deletes at wider scopes need confirmation and tell the impact; at service scope never", async () => {
    const { P, E, web } = await fresh();
    await world.must("POST", `${P}/variables`, { name: "A", value: "x" });
    const refused = await world.call("DELETE", `${P}/variables/A`);
    expect(refusal(refused)).toBe("409 impact_confirmation_required");
    expect(refused.body.error!.impact).toMatchObject({ total: 1, services: [{ name: "web" }] });
    expect((await world.call("DELETE", `${P}/variables/A`, { confirmImpact: true })).status).toBe(204);
    await world.must("POST", `${E}/variables`, { name: "A", value: "x" });
    expect(refusal(await world.call("DELETE", `${E}/variables/A`))).toBe("409 impact_confirmation_required");
    await world.must("POST", `${web}/variables`, { name: "A", value: "x" });
    expect((await world.call("DELETE", `${web}/variables/A`)).status).toBe(204);
    await world.must("POST", `${web}/variables`, { name: "A", value: "x" });
    expect(await world.must("POST", `${web}/variables/batch`, { unset: ["A"] })).toMatchObject({
      removed: 1,
    });
  });

  test("more than 1000 variables in a scope: 403 quota_exceeded; nothing of that batch stays", async () => {
    const { P } = await fresh();
    const some = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => ({ name: `N${from + i}`, value: "x" }));
    await world.must("POST", `${P}/variables/batch`, { set: some(0, 500) });
    await world.must("POST", `${P}/variables/batch`, { set: some(500, 499) });
    expect(refusal(await world.call("POST", `${P}/variables/batch`, { set: some(2000, 2) }))).toBe(
      "403 quota_exceeded",
    );
    expect((await world.call("GET", `${P}/variables/N2000`)).status).toBe(404);
    await world.must("POST", `${P}/variables`, { name: "LAST", value: "x" });
    expect(refusal(await world.call("POST", `${P}/variables`, { name: "OVER", value: "x" }))).toBe(
      "403 quota_exceeded",
    );
  });

  test("a resolved set over 512 KiB is refused on the write that would cause it", async () => {
    const { P, web } = await fresh();
    const big = "x".repeat(60 * 1024);
    for (let i = 0; i < 8; i++) await world.must("POST", `${P}/variables`, { name: `BIG_${i}`, value: big });
    const over = await world.call("POST", `${web}/variables`, { name: "BIG_8", value: big });
    expect(refusal(over)).toBe("422 resolved_set_too_large");
    await world.must("POST", `${web}/variables`, { name: "BIG_7", value: big });
  });

  test("unknown scopes and other accounts' scopes", async () => {
    const missing = P.replace(/prj_.*/, "prj_00000000000000000000000000");
    expect(refusal(await world.call("GET", `${missing}/variables`))).toBe("404 not_found");
    expect(refusal(await world.call("GET", `${E}/services/nope/variables`))).toBe("404 not_found");
    const foreign = P.replace(/acc_[^/]+/, "acc_00000000000000000000000000");
    expect(refusal(await world.call("GET", `${foreign}/variables`))).toBe("403 forbidden");
    const mine = await world.must<{ id: string }>("POST", "/accounts", { handle: "second-account" });
    const crossed = P.replace(/acc_[^/]+/, mine.id);
    expect(refusal(await world.call("GET", `${crossed}/variables`))).toBe("404 not_found");
  });

  test("a reader reads and reveals, and may not write", async () => {
    const { token } = await world.member("reader");
    await world.must("POST", `${P}/variables`, { name: "FOR_READER", value: "r", sensitive: true });
    expect((await world.call("GET", `${P}/variables`, undefined, { token })).status).toBe(200);
    expect(
      (await world.call("POST", `${P}/variables/FOR_READER/reveal`, undefined, { token })).body,
    ).toMatchObject({ value: "r" });
    const write = await world.call("POST", `${P}/variables`, { name: "W", value: "x" }, { token });
    expect(refusal(write)).toBe("403 forbidden");
    expect(write.body.error!.requiredRole).toBe("editor");
  });
});

describe("pages", () => {
  test("newest first, 20 by default, cursors lead on, and end with an empty one", async () => {
    const { P } = await fresh();
    for (let i = 0; i < 25; i++) await world.must("POST", `${P}/variables`, { name: `V${i}`, value: "x" });
    const first = await world.must<Page>("GET", `${P}/variables`);
    expect(first.data.map((v) => v.name)).toEqual(Array.from({ length: 20 }, (_, i) => `V${24 - i}`));
    expect(first.page.hasMore).toBe(true);
    const rest = await world.must<Page>(
      "GET",
      `${P}/variables?cursor=${encodeURIComponent(first.page.nextCursor)}`,
    );
    expect(rest.data.map((v) => v.name)).toEqual(["V4", "V3", "V2", "V1", "V0"]);
    expect(rest.page).toEqual({ nextCursor: "", hasMore: false });
  });

  test("a limit out of bounds, a foreign cursor, an unknown parameter", async () => {
    for (const limit of ["0", "101"])
      expect(refusal(await world.call("GET", `${P}/variables?limit=${limit}`))).toBe("422 out_of_range");
    expect(refusal(await world.call("GET", `${P}/variables?limit=ten`))).toBe("422 invalid_type");
    expect(refusal(await world.call("GET", `${P}/variables?cursor=abc`))).toBe("400 malformed_request");
    expect(refusal(await world.call("GET", `${P}/variables?order=asc`))).toBe("422 unknown_field");
  });
});

describe("resolution", () => {
  test("the nearest scope wins, shadows are told, sensitive values are withheld", async () => {
    const { P, E, web } = await fresh();
    await world.must("POST", `${P}/variables`, { name: "X", value: "p" });
    await world.must("POST", `${E}/variables`, { name: "X", value: "e" });
    await world.must("POST", `${web}/variables`, { name: "X", value: "s" });
    await world.must("POST", `${P}/variables`, { name: "SECRET", value: "hush", sensitive: true });
    await world.must("POST", `${web}/variables`, { name: "ALIAS", aliasTarget: "SECRET" });
    const { data, dangling } = await world.must<Resolved>("GET", `${web}/resolved-variables`);
    expect(dangling).toEqual([]);
    expect(data.map((d) => [d.name, d.value, d.source, d.sensitive])).toEqual([
      ["ALIAS", undefined, "service", true],
      ["SECRET", undefined, "project", true],
      ["X", "s", "service", false],
    ]);
    expect(data[2]!.shadows.map((s) => s.scope)).toEqual(["environment", "project"]);
  });

  test("every dangling reason that a user can cause is told", async () => {
    const { E, web } = await fresh([
      { name: "web", type: "web" },
      { name: "other", type: "web" },
      { name: "db", type: "postgres" },
    ]);
    const set = [
      { name: "NO_SERVICE", connection: { service: "ghost", key: "URL" } },
      { name: "NO_ADDON", connection: { service: "other", key: "URL" } },
      { name: "NO_KEY", connection: { service: "db", key: "NOPE" } },
      { name: "NO_TARGET", aliasTarget: "GHOST" },
      { name: "BEHIND", aliasTarget: "NO_TARGET" },
      ...Array.from({ length: 12 }, (_, i) => ({ name: `DEEP_${i}`, aliasTarget: `DEEP_${i + 1}` })),
      { name: "DEEP_12", value: "end" },
    ];
    await world.must("POST", `${E}/variables/batch`, { set });
    const reasons = await eventually("the addon is provisioned", async () => {
      const { dangling } = await world.must<Resolved>("GET", `${web}/resolved-variables`);
      const found = Object.fromEntries(dangling.map((d) => [d.name, d.reason]));
      return found.NO_KEY === "key_not_found" && found;
    });
    expect(reasons).toMatchObject({
      NO_SERVICE: "service_not_found",
      NO_ADDON: "service_not_addon",
      NO_TARGET: "alias_target_not_found",
      BEHIND: "alias_target_dangling",
      DEEP_0: "alias_depth_exceeded",
    });
    expect(reasons).not.toHaveProperty("DEEP_3");
    const revealed = await world.call("POST", `${E}/variables/NO_TARGET/reveal`);
    expect(refusal(revealed)).toBe("422 alias_target_not_found");
  });

  test("impact counts the services that resolve the variable, without shadowing ones and addons", async () => {
    const { P, E, S } = await fresh([
      { name: "web", type: "web" },
      { name: "api", type: "web" },
      { name: "db", type: "postgres" },
    ]);
    await world.must("POST", `${P}/variables`, { name: "X", value: "p" });
    await world.must("POST", `${S("api")}/variables`, { name: "X", value: "own" });
    type Impact = { services: { name: string; environmentId: string }[]; total: number };
    const impact = await world.must<Impact>("GET", `${P}/variables/X/impact`);
    expect(impact).toMatchObject({ total: 1, services: [{ name: "web" }] });
    await world.must("POST", `${E}/variables`, { name: "X", value: "e" });
    expect(await world.must("GET", `${P}/variables/X/impact`)).toMatchObject({ total: 0, services: [] });
    expect(await world.must("GET", `${E}/variables/X/impact`)).toMatchObject({ total: 1 });
    expect((await world.call("GET", `${S("web")}/variables/X/impact`)).status).toBe(404);
  });
});

describe("conditional requests", () => {
  const tagOf = (answer: Answer) => answer.headers.get("etag")!;

  test("resolved variables answer 304 until anything visible changes", async () => {
    const { P, web } = await fresh();
    await world.must("POST", `${P}/variables`, { name: "X", value: "1" });
    const path = `${web}/resolved-variables`;
    const first = await world.call("GET", path);
    const again = await world.call("GET", path, undefined, { headers: { "if-none-match": tagOf(first) } });
    expect([again.status, again.body]).toEqual([304, {}]);
    await world.must("PATCH", `${P}/variables/X`, { value: "2" });
    const changed = await world.call("GET", path, undefined, { headers: { "if-none-match": tagOf(first) } });
    expect(changed.status).toBe(200);
    expect(tagOf(changed)).not.toBe(tagOf(first));
  });

  test("If-Match lets the first writer win and refuses the second", async () => {
    const { P } = await fresh();
    const path = `${P}/variables/X`;
    await world.must("POST", `${P}/variables`, { name: "X", value: "1" });
    const headers = { "if-match": tagOf(await world.call("GET", path)) };
    expect((await world.call("PATCH", path, { value: "2" }, { headers })).status).toBe(200);
    expect(refusal(await world.call("PATCH", path, { value: "3" }, { headers }))).toBe(
      "409 revision_conflict",
    );
    expect(refusal(await world.call("DELETE", `${path}?confirmImpact=true`, undefined, { headers }))).toBe(
      "409 revision_conflict",
    );
  });
});

test("each reveal is in the audit log, with who and where, and without the value", async () => {
  const { P, projectId } = await fresh();
  await world.must("POST", `${P}/variables`, {
    name: "AUDITED",
    value: "marker-value-of-audit",
    sensitive: true,
  });
  await world.must("POST", `${P}/variables/AUDITED/reveal`);
  type Audit = {
    data: {
      action: string;
      target: string;
      actor: { kind: string };
      requestId: string;
      ip: string;
      metadata: Record<string, string>;
    }[];
  };
  const events = await eventually("the reveal is in the log", async () => {
    const { data } = await world.must<Audit>("GET", `${world.A}/audit-events?action=variable.reveal`);
    return data.some((e) => e.target === "AUDITED") && data;
  });
  const entry = events.find((e) => e.target === "AUDITED")!;
  expect(entry).toMatchObject({ actor: { kind: "user" }, ip: "127.0.0.1" });
  expect(entry.requestId).not.toBe("");
  expect(JSON.stringify(entry)).toContain(projectId);
  expect(JSON.stringify(events)).not.toContain("marker-value-of-audit");
});
