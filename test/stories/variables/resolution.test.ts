import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { refusal } from "../../support/door.ts";
import { freshProject } from "../../support/fresh-project.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world.stop());

type Resolved = {
  data: { name: string; value?: string; sensitive: boolean; source: string; shadows: { scope: string }[] }[];
  dangling: { name: string; reason: string }[];
};

describe("resolution", () => {
  test("the nearest scope wins, shadows are told, sensitive values are withheld", async () => {
    const { P, E, web } = await freshProject(world);
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

  test("what a service has in its configuration is in its set, and says so", async () => {
    const scene = await freshProject(world, [{ name: "web", type: "web" }]);
    const { P, web } = scene;
    await world.must("PATCH", web, { config: { env: { MODE: "config", LEVEL: "config" } } });
    await world.must("POST", `${P}/variables`, { name: "LEVEL", value: "variable" });
    const { data } = await world.must<Resolved>("GET", `${web}/resolved-variables`);
    expect(data).toMatchObject([
      { name: "LEVEL", value: "variable", source: "project" },
      { name: "MODE", value: "config", source: "service", fromConfig: true },
    ]);
    expect(data[0]).not.toHaveProperty("fromConfig");
    // From the first read on, and in the very next one after each change.
    const { E } = scene;
    await world.must("POST", `${E}/services`, {
      name: "new",
      type: "web",
      config: { env: { MODE: "born" } },
    });
    const seen = async () => {
      const { data } = await world.must<Resolved>("GET", `${E}/services/new/resolved-variables`);
      return data.map(({ name, value }) => `${name}=${value}`);
    };
    expect(await seen()).toEqual(["LEVEL=variable", "MODE=born"]);
    await world.must("PATCH", `${E}/services/new`, { unsetEnv: ["MODE"] });
    expect(await seen()).toEqual(["LEVEL=variable"]);
    await world.must("PATCH", `${E}/services/new`, { config: { env: { MODE: "again" } } });
    expect(await seen()).toEqual(["LEVEL=variable", "MODE=again"]);
  });

  test("every dangling reason that a user can cause is told", async () => {
    const { E, web } = await freshProject(world, [
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
    type Warned = { warnings: { reason: string; variable: string }[] };
    const { warnings } = await world.must<Warned>("POST", `${E}/variables/batch`, { set });
    expect(warnings).toContainEqual(
      expect.objectContaining({ reason: "service_not_found", variable: "NO_SERVICE" }),
    );
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
    const { P, E, S } = await freshProject(world, [
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
