import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, refusal } from "../../support/door.ts";
import { freshProject } from "../../support/fresh-project.ts";
import { startWorld, type World } from "../../support/world.ts";

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

describe("pages", () => {
  test("newest first, 20 by default, cursors lead on, and end with an empty one", async () => {
    const { P } = await freshProject(world);
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

describe("conditional requests", () => {
  const tagOf = (answer: Answer) => answer.headers.get("etag")!;

  test("resolved variables answer 304 until anything visible changes", async () => {
    const { P, web } = await freshProject(world);
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
    const { P } = await freshProject(world);
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

test("the whole set of a service is revealed, kept by no cache, and each sensitive variable is in the audit log", async () => {
  const { P, S, projectId } = await freshProject(world);
  await world.must("POST", `${P}/variables`, { name: "SET_PLAIN", value: "plain" });
  await world.must("POST", `${P}/variables`, { name: "SET_SECRET", value: "marker-of-set", sensitive: true });
  const answer = await world.call("POST", `${S("web")}/resolved-variables/reveal`);
  expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
  const entry = (name: string, value: string, sensitive: boolean) => ({
    name,
    value,
    sensitive,
    source: "project",
    sourceScopeId: projectId,
  });
  expect(answer.body).toEqual({
    data: [entry("SET_PLAIN", "plain", false), entry("SET_SECRET", "marker-of-set", true)],
    dangling: [],
  });
  const audits = await world.must("GET", `${world.A}/audit-events?action=variable.reveal&limit=100`);
  const targets = (audits as { data: { target: string }[] }).data.map(({ target }) => target);
  expect(targets.filter((target) => target.startsWith("SET_"))).toEqual(["SET_SECRET"]);
  expect(JSON.stringify(audits)).not.toContain("marker-of-set");
  for (const service of ["none", "%00"]) {
    const refused = await world.call("POST", `${S(service)}/resolved-variables/reveal`);
    expect(refusal(refused)).toBe("404 not_found");
  }
});

test("each reveal is in the audit log, with who and where, and without the value", async () => {
  const { P, projectId } = await freshProject(world);
  await world.must("POST", `${P}/variables`, {
    name: "AUDITED",
    value: "marker-value-of-audit",
    sensitive: true,
  });
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
  const reveals = async () => {
    const { data } = await world.must<Audit>(
      "GET",
      `${world.A}/audit-events?action=variable.reveal&limit=100`,
    );
    return data.filter((event) => event.target === "AUDITED");
  };
  // It is there when the answer is, each time.
  for (let count = 1; count <= 25; count++) {
    await world.must("POST", `${P}/variables/AUDITED/reveal`);
    expect(await reveals()).toHaveLength(count);
  }
  const events = await reveals();
  const entry = events.find((e) => e.target === "AUDITED")!;
  expect(entry).toMatchObject({ actor: { kind: "user" }, ip: "127.0.0.1" });
  expect(entry.requestId).not.toBe("");
  expect(JSON.stringify(entry)).toContain(projectId);
  expect(JSON.stringify(events)).not.toContain("marker-value-of-audit");
});
