import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { refusal } from "../../support/door.ts";
import { freshProject } from "../../support/fresh-project.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let P: string;
let E: string;

beforeAll(async () => {
  world = await startWorld();
  const made = await world.environment();
  [P, E] = [made.P, made.E];
});

afterAll(() => world.stop());

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
    ["an impossible service", { name: "A", connection: { service: "DB!", key: "URL" } }, "422 invalid_name"],
    ["an impossible key", { name: "A", connection: { service: "db", key: "url" } }, "422 invalid_key"],
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
    const { P } = await freshProject(world);
    const both = await Promise.all(
      ["a", "b"].map((value) => world.call("POST", `${P}/variables`, { name: "TWICE", value })),
    );
    expect(both.map((a) => a.status).sort()).toEqual([200, 409]);
    expect(refusal(both.find((a) => a.status === 409)!)).toBe("409 variable_exists");
  });

  test("patches: empty, another kind, two sources, sensitive alias", async () => {
    const { P } = await freshProject(world);
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
    const { P, E } = await freshProject(world);
    await world.must("POST", `${P}/variables`, { name: "ONE", aliasTarget: "TWO" });
    const answer = await world.call("POST", `${E}/variables`, { name: "TWO", aliasTarget: "ONE" });
    expect(refusal(answer)).toBe("422 alias_cycle");
  });

  test("a cycle that only a service's own variables close is allowed, and the answer names the service", async () => {
    const { P, E, web } = await freshProject(world);
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
    const { P, E, web } = await freshProject(world);
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
    const { P } = await freshProject(world);
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
    const { P, web } = await freshProject(world);
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
