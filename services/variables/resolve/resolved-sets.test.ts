import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { deployerEvents, headers, startTree, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  const editor = world.as(made.accountId);
  const resolved = async () => {
    const { data, dangling } = await editor.getResolvedVariables(made.S);
    return {
      data,
      dangling,
      values: Object.fromEntries(data.map(({ name, value }) => [name, value])),
      reasons: Object.fromEntries(dangling.map(({ name, reason }) => [name, reason])),
    };
  };
  const release = () => world.service().resolveRelease({ serviceId: made.ids.web! });
  return { ...made, editor, resolved, release };
}

const DB = { HOST: "127.0.0.1", PORT: "5432", PASSWORD: "pw", URL: "postgres://x:pw@h/d" };

/** Changes config.env of a service as the deployer does: announced first. */
async function configure(serviceId: string, env: Record<string, string>) {
  await world.service().announceDeletion({ scopeId: serviceId });
  world.tree.configure(serviceId, env);
}

/** Makes the environment's addon known, with its keys. */
async function provision(
  made: ReturnType<typeof scene>,
  name: string,
  values: Record<string, string>,
  revision = 1n,
) {
  const serviceId = made.ids[name]!;
  world.tree.publish(serviceId, values, revision);
  const { accountId } = made;
  await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision });
}

describe("what a service resolves", () => {
  test("the URL of a postgres addon that has published none for a pooler, which is sensitive as that", async () => {
    const made = scene({ web: "web", db: "postgres", cache: "redis" });
    for (const service of ["db", "cache"]) {
      const connection = { service, key: "POOLED_URL" };
      await made.editor.createVariable({ ...made.E, name: service.toUpperCase(), connection });
      await provision(made, service, DB);
    }
    const data = await eventually("the keys of both are there", async () => {
      const { data, reasons } = await made.resolved();
      return data.length === 1 && reasons.CACHE === "key_not_found" && data;
    });
    expect(data).toMatchObject([{ name: "DB", sensitive: true }]);
    expect(data[0]!.value).toBeUndefined();
    const released = async () => (await made.release()).data.find(({ name }) => name === "DB")?.value;
    expect(await released()).toBe(DB.URL);
    const revealed = await made.editor.revealVariable({ ...made.E, variableName: "DB" });
    expect(revealed.value).toBe(DB.URL);
    await provision(made, "db", { ...DB, POOLED_URL: "postgres://x:pw@pooler/d" }, 2n);
    await eventually("that is published", async () => (await released()) === "postgres://x:pw@pooler/d");
  });

  test("config.env where no variable has the name, marked as the service's configuration, and at once when it changes", async () => {
    const made = scene();
    const { E, S, editor, ids } = made;
    world.tree.configure(ids.web!, { MODE: "config", LEVEL: "config", BROKEN: "config" });
    await editor.createVariable({ ...E, name: "LEVEL", value: "variable" });
    await editor.createVariable({ ...S, name: "BROKEN", aliasTarget: "NOTHING" });
    const { data, reasons } = await made.resolved();
    expect(data.map(({ name, value, source, fromConfig }) => [name, value, source, fromConfig])).toEqual([
      ["LEVEL", "variable", "environment", undefined],
      ["MODE", "config", "service", true],
    ]);
    expect(data[1]).toMatchObject({
      sourceId: ids.web,
      sourceScopeId: ids.web,
      shadows: [],
      sensitive: false,
    });
    expect(reasons).toEqual({ BROKEN: "alias_target_not_found" });
    const tagOf = async () => {
      const { got, options } = headers();
      await editor.getResolvedVariables(S, options);
      return got.etag;
    };
    const before = await tagOf();
    expect(await tagOf()).toBe(before);
    world.tree.configure(ids.web!, { MODE: "another" });
    expect((await made.resolved()).values).toMatchObject({ MODE: "another" });
    const after = await tagOf();
    expect(after).not.toBe(before);
    const { got, options } = headers({ "if-none-match": after! });
    await editor.getResolvedVariables(S, options);
    expect(got.notModified).toBe(true);
    world.tree.configure(ids.web!, {});
    expect((await made.resolved()).data.map(({ name }) => name)).toEqual(["LEVEL"]);
  });

  test("is answered while the deployer is away unless the service may have config.env", async () => {
    const made = scene({ web: "web", api: "web" });
    const { E, S, accountId, ids, editor } = made;
    const api = { ...E, service: "api" };
    world.tree.configure(ids.api!, { MODE: "config" });
    await editor.createVariable({ ...E, name: "LEVEL", value: "variable" });
    await editor.getResolvedVariables(api);
    const asked = world.tree.asked.envs;
    await made.resolved();
    expect(world.tree.asked.envs).toBe(asked);
    const away = await startTree();
    await away.stop();
    const other = await world.startOne({ DEPLOYER_URL: away.url });
    const there = world.as(accountId, "editor", other.port);
    expect((await there.getResolvedVariables(S)).data).toHaveLength(1);
    expect(await refused(there.getResolvedVariables(api))).toBe("503 unavailable");
    await configure(ids.web!, { MODE: "config" });
    expect(await refused(there.getResolvedVariables(S))).toBe("503 unavailable");
    await other.stop();
    expect((await made.resolved()).values).toEqual({ LEVEL: "variable", MODE: "config" });
  });

  test("config.env also long after its announcement, whichever version deleted that", async () => {
    const made = scene();
    const { S, editor, ids, resolved } = made;
    await resolved();
    await configure(ids.web!, { MODE: "config" });
    // As a replica of the previous version does.
    await world.pool.query("delete from doubts where scope_id = $1", [ids.web]);
    await world.pool.query("update scopes set doubted = false where id = $1", [ids.web]);
    expect((await resolved()).values).toEqual({ MODE: "config" });
    await world.service().announceDeletion({ scopeId: ids.web! });
    await world.pool.query("update doubts set at = now() - interval '3 minutes'");
    await editor.listVariables(S);
    expect((await resolved()).values).toEqual({ MODE: "config" });
    expect((await world.pool.query("select from doubts where scope_id = $1", [ids.web])).rowCount).toBe(0);
    await world.pool.query(
      "update scopes set config_env_at = now() - interval '2 hours' where config_env_at is not null",
    );
    expect((await resolved()).values).toEqual({ MODE: "config" });
    // Without config.env the deployer is asked once more.
    world.tree.configure(ids.web!, {});
    const asked = world.tree.asked.envs;
    for (let read = 0; read < 3; read++) expect((await resolved()).values).toEqual({});
    expect(world.tree.asked.envs).toBe(asked + 1);
    await configure(ids.web!, { MODE: "again" });
    expect((await resolved()).values).toEqual({ MODE: "again" });
  });

  test("config.env of a service that was created with it, or announced before its event, or never announced", async () => {
    const made = scene({ born: "web", told: "web", silent: "web", none: "web" });
    const { E, accountId, ids } = made;
    const created = (name: string, hasConfigEnv?: boolean) =>
      world.publish(deployerEvents.ServiceCreatedSchema, accountId, {
        ...{ ...E, serviceId: ids[name]!, name, type: "web" },
        ...(hasConfigEnv !== undefined && { hasConfigEnv }),
      });
    for (const name of ["born", "silent"]) world.tree.configure(ids[name]!, { MODE: name });
    await configure(ids.told!, { MODE: "told" });
    await created("born", true);
    await created("told", false);
    // By a deployer of the previous version.
    await created("silent");
    await created("none", false);
    await eventually("they are known", async () => {
      const found = await world.pool.query("select from scopes where id = any($1)", [Object.values(ids)]);
      return found.rowCount === 4;
    });
    const valuesOf = async (service: string) =>
      (await made.editor.getResolvedVariables({ ...E, service })).data.map(({ value }) => value);
    for (const name of ["born", "told", "silent"]) expect(await valuesOf(name)).toEqual([name]);
    const asked = world.tree.asked.envs;
    expect([await valuesOf("none"), world.tree.asked.envs]).toEqual([[], asked]);
    await world.pool.query("update doubts set at = now() - interval '3 minutes'");
    for (let read = 0; read < 2; read++) expect(await valuesOf("told")).toEqual(["told"]);
  });

  test("is the union of its scopes, the nearest winning, with what it overrides and without secrets", async () => {
    const made = scene();
    const { P, E, S, editor } = made;
    const [p, e] = [
      await editor.createVariable({ ...P, name: "X", value: "p" }),
      await editor.createVariable({ ...E, name: "X", value: "e" }),
    ];
    const s = await editor.createVariable({ ...S, name: "X", value: "s" });
    await editor.createVariable({ ...P, name: "SECRET", value: "hush", sensitive: true });
    await editor.createVariable({ ...E, name: "VIA", aliasTarget: "SECRET" });
    await editor.createVariable({ ...E, name: "OPEN", aliasTarget: "X" });
    const { data, dangling } = await made.resolved();
    expect(dangling).toEqual([]);
    expect(data.map((entry) => [entry.name, entry.value, entry.sensitive, entry.source])).toEqual([
      ["OPEN", "s", false, "environment"],
      ["SECRET", undefined, true, "project"],
      ["VIA", undefined, true, "environment"],
      ["X", "s", false, "service"],
    ]);
    expect(data[3]).toMatchObject({
      sourceId: s.id,
      sourceScopeId: s.scopeId,
      shadows: [
        { scope: "environment", scopeId: e.scopeId, id: e.id },
        { scope: "project", scopeId: p.scopeId, id: p.id },
      ],
    });
    const released = await made.release();
    expect(released.data.map(({ name, value, sensitive }) => [name, value, sensitive])).toEqual([
      ["OPEN", "s", false],
      ["SECRET", "hush", true],
      ["VIA", "hush", true],
      ["X", "s", false],
    ]);
  });

  test("follows connections to what addons publish, and gives every reason why a name is missing", async () => {
    const made = scene({ web: "web", other: "worker", db: "postgres", cache: "redis" });
    const { E, editor } = made;
    for (const name of ["other", "cache"]) await editor.listVariables({ ...E, service: name });
    const set = [
      { name: "DATABASE_URL", connection: { service: "db", key: "URL" } },
      { name: "DATABASE_HOST", connection: { service: "db", key: "HOST" } },
      { name: "NO_SERVICE", connection: { service: "ghost", key: "URL" } },
      { name: "NO_ADDON", connection: { service: "other", key: "URL" } },
      { name: "NO_KEY", connection: { service: "db", key: "NOPE" } },
      { name: "NOT_READY", connection: { service: "cache", key: "URL" } },
      { name: "NO_TARGET", aliasTarget: "GHOST" },
      { name: "BEHIND", aliasTarget: "NO_TARGET" },
      ...Array.from({ length: 12 }, (_, i) => ({ name: `DEEP_${i}`, aliasTarget: `DEEP_${i + 1}` })),
      { name: "DEEP_12", value: "end" },
      { name: "ROUND", value: "x" },
    ];
    await editor.batchVariables({ ...E, set });
    await editor.createVariable({ ...E, name: "TO_ROUND", aliasTarget: "ROUND" });
    await editor.createVariable({ ...made.P, name: "ROUND", aliasTarget: "TO_ROUND" });
    await editor.batchVariables({ ...E, unset: ["ROUND"], confirmImpact: true });
    expect((await made.resolved()).reasons).toMatchObject({
      DATABASE_URL: "service_not_ready",
      NO_KEY: "service_not_ready",
    });
    await provision(made, "db", DB);
    const found = await eventually("the addon's keys are known", async () => {
      const now = await made.resolved();
      return now.values.DATABASE_HOST !== undefined && now;
    });
    expect(found.reasons).toEqual({
      NO_SERVICE: "service_not_found",
      NO_ADDON: "service_not_addon",
      NO_KEY: "key_not_found",
      NOT_READY: "service_not_ready",
      NO_TARGET: "alias_target_not_found",
      BEHIND: "alias_target_dangling",
      DEEP_0: "alias_depth_exceeded",
      DEEP_1: "alias_depth_exceeded",
      ROUND: "alias_cycle",
      TO_ROUND: "alias_cycle",
    });
    expect(found.values).toMatchObject({
      DATABASE_HOST: "127.0.0.1",
      DATABASE_URL: undefined,
      DEEP_2: "end",
    });
    const released = await made.release();
    expect(released.data.find(({ name }) => name === "DATABASE_URL")).toMatchObject({
      value: DB.URL,
      sensitive: true,
    });
    expect(released.dangling.map(({ name }) => name).sort()).toEqual(Object.keys(found.reasons).sort());
  });

  test("is nothing for a managed addon", async () => {
    const { E, ids, editor } = scene({ db: "postgres" });
    expect(await refused(editor.getResolvedVariables({ ...E, service: "db" }))).toBe("404 not_found");
    expect(await refused(world.service().resolveRelease({ serviceId: ids.db! }))).toBe("404 not_found");
    expect(await refused(world.service().resolveRelease({ serviceId: "svc_nobody" }))).toBe("404 not_found");
    const byUser = clientAs(InternalService, world.port, { accountId: E.accountId, role: "editor" });
    expect(await refused(byUser.resolveRelease({ serviceId: ids.db! }))).toBe("403 forbidden");
  });
});

describe("reveal", () => {
  test("resolves as far as the scope of the variable reaches", async () => {
    const made = scene({ web: "web", db: "postgres" });
    const { P, E, S, editor } = made;
    const reveal = async (base: object, variableName: string) =>
      (await editor.revealVariable({ ...(base as typeof S), variableName })).value;
    await editor.createVariable({ ...P, name: "TARGET", value: "of project", sensitive: true });
    await editor.createVariable({ ...P, name: "ALIAS", aliasTarget: "TARGET" });
    await editor.createVariable({ ...E, name: "TARGET", value: "of environment" });
    await editor.createVariable({ ...S, name: "ALIAS", aliasTarget: "TARGET" });
    expect(await reveal(P, "ALIAS")).toBe("of project");
    expect(await reveal(S, "ALIAS")).toBe("of environment");
    for (const base of [P, E])
      await editor.createVariable({ ...base, name: "DB", connection: { service: "db", key: "URL" } });
    expect(await refused(editor.revealVariable({ ...E, variableName: "DB" }))).toBe(
      "422 validation_failed service_not_ready",
    );
    await provision(made, "db", DB);
    await eventually("the keys are known", async () => (await made.resolved()).dangling.length === 0);
    expect(await reveal(E, "DB")).toBe(DB.URL);
    await editor.createVariable({ ...S, name: "FAR", aliasTarget: "DB" });
    expect(await reveal(S, "FAR")).toBe(DB.URL);
    expect(await refused(editor.revealVariable({ ...P, variableName: "DB" }))).toBe(
      "422 validation_failed service_not_found",
    );
    await editor.createVariable({ ...P, name: "NOWHERE", aliasTarget: "GHOST" });
    expect(await refused(editor.revealVariable({ ...P, variableName: "NOWHERE" }))).toBe(
      "422 validation_failed alias_target_not_found",
    );
  });
});

describe("the tag of a resolved set", () => {
  test("stays while nothing changes and changes with everything in the set", async () => {
    const made = scene({ web: "web", db: "postgres" });
    const { P, E, S, ids, accountId, editor } = made;
    const now = async () => {
      const call = headers();
      await editor.getResolvedVariables(S, call.options);
      return call.got.etag!;
    };
    const tag = async () => {
      const current = await now();
      const again = headers({ "if-none-match": current });
      const held = await editor.getResolvedVariables(S, again.options);
      expect([again.got.notModified, held.data.length]).toEqual([true, 0]);
      return current;
    };
    const seen = new Set([await tag()]);
    const moved = async (what: string, change: () => Promise<unknown>) => {
      await change();
      await eventually(`the tag moves after ${what}`, async () => !seen.has(await now()));
      seen.add(await tag());
    };
    expect(await tag()).toBe([...seen][0]);
    for (const base of [P, E, S]) {
      await moved("a create", () => editor.createVariable({ ...base, name: "X", value: "1" }));
      await moved("an update", () => editor.updateVariable({ ...base, variableName: "X", value: "1" }));
      await moved("a batch", () => editor.batchVariables({ ...base, set: [{ name: "Y", value: "1" }] }));
      await moved("a delete", () =>
        editor.deleteVariable({ ...base, variableName: "X", confirmImpact: true }),
      );
    }
    await moved("an addon appears", () => editor.listVariables({ ...E, service: "db" }));
    await moved("it publishes", () => provision(made, "db", DB));
    await moved("it publishes again", () => provision(made, "db", { ...DB, HOST: "elsewhere" }, 2n));
    const gone = { accountId, projectId: P.projectId, environmentId: E.environmentId, serviceId: ids.db! };
    await moved("it goes", () => world.publish(deployerEvents.ServiceDeletedSchema, accountId, gone));
    const before = await tag();
    const handled = async () => (await world.pool.query("select from inbox")).rowCount!;
    const count = await handled();
    await provision(made, "db", DB, 3n);
    await eventually("the event of the gone addon is handled", async () => (await handled()) > count);
    expect(await tag()).toBe(before);
  });

  test("a reader that asks again and again sees every write at once", async () => {
    const made = scene();
    for (let i = 0; i < 30; i++) {
      await made.editor.batchVariables({
        ...[made.P, made.E, made.S][i % 3]!,
        set: [{ name: `N${i % 3}`, value: `${i}` }],
      });
      expect((await made.resolved()).values[`N${i % 3}`]).toBe(`${i}`);
    }
  });
});

test("the fingerprint of a release changes exactly when a name or a value does", async () => {
  const { P, E, S, editor, release } = scene();
  const fingerprint = async () => (await release()).fingerprint;
  await editor.createVariable({ ...P, name: "A", value: "1" });
  const one = await fingerprint();
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  await editor.createVariable({ ...E, name: "A", value: "1" });
  await editor.updateVariable({ ...E, variableName: "A", sensitive: true });
  expect(await fingerprint()).toBe(one);
  await editor.updateVariable({ ...E, variableName: "A", value: "2" });
  const two = await fingerprint();
  await editor.createVariable({ ...S, name: "B", value: "1" });
  const three = await fingerprint();
  await editor.deleteVariable({ ...S, variableName: "B" });
  expect(new Set([one, two, three]).size).toBe(3);
  expect(await fingerprint()).toBe(two);
});
