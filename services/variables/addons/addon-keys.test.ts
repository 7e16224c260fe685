import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { deployerEvents, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  const { accountId } = made;
  const tell = {
    service: (name: string, serviceId: string, type = "web") =>
      world.publish(deployerEvents.ServiceCreatedSchema, accountId, { ...made.E, serviceId, name, type }),
    serviceGone: (serviceId: string) =>
      world.publish(deployerEvents.ServiceDeletedSchema, accountId, { ...made.E, serviceId }),
    keys: (serviceId: string, revision: bigint) =>
      world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision }),
  };
  return { ...made, tell, editor: world.as(accountId) };
}

describe("addon keys", () => {
  const KEYS = { HOST: "h1", URL: "postgres://u:marker@h1/d" };

  async function connected() {
    const made = scene({ web: "web", db: "postgres" });
    const connection = { service: "db", key: "HOST" };
    await made.editor.createVariable({ ...made.S, name: "HOST", connection });
    const host = async () => {
      const { data, dangling } = await made.editor.getResolvedVariables(made.S);
      return data[0]?.value ?? dangling[0]!.reason;
    };
    return { ...made, db: made.ids.db!, host };
  }

  test("are fetched when they are published, newer ones replace older, and each change is published", async () => {
    const { db, host, tell, accountId, environmentId } = await connected();
    expect(await host()).toBe("service_not_ready");
    world.tree.publish(db, KEYS, 1n);
    await tell.keys(db, 1n);
    await eventually("the keys are there", async () => (await host()) === "h1");
    world.tree.publish(db, { HOST: "h2" }, 2n);
    await tell.keys(db, 2n);
    await tell.keys(db, 1n);
    await eventually("the newer keys are there", async () => (await host()) === "h2");
    const { rows } = await world.pool.query("select key from addon_keys where service_id = $1", [db]);
    expect(rows).toEqual([{ key: "HOST" }]);
    const told = await eventually("both changes are told", async () => {
      const all = world.published(VariablesChangedSchema, accountId);
      const found = all.filter((change) => change.scope === "environment");
      return found.length >= 2 && found;
    });
    expect(told.map(({ scopeId, names }) => [scopeId, names])).toEqual([
      [environmentId, []],
      [environmentId, []],
    ]);
  });

  test("are read at once for an addon that is discovered before its events arrive", async () => {
    const made = scene({ web: "web", db: "postgres" });
    world.tree.publish(made.ids.db!, KEYS);
    await made.editor.createVariable({ ...made.S, name: "URL", connection: { service: "db", key: "URL" } });
    expect((await made.editor.revealVariable({ ...made.S, variableName: "URL" })).value).toBe(KEYS.URL);
  });

  test("reach a release even while their event is still in flight", async () => {
    const { db, ids, editor, E } = await connected();
    world.tree.publish(db, KEYS);
    const release = () => world.service().resolveRelease({ serviceId: ids.web! });
    expect((await release()).data.map(({ name, value }) => [name, value])).toEqual([["HOST", "h1"]]);
    await editor.createVariable({ ...E, name: "LATE", connection: { service: "cache", key: "URL" } });
    expect((await release()).dangling.map(({ reason }) => reason)).toEqual(["service_not_found"]);
    const cache = world.tree.service(E.environmentId, "cache", "redis");
    world.tree.publish(cache, { URL: "redis://c" });
    expect((await release()).data.find(({ name }) => name === "LATE")?.value).toBe("redis://c");
  });

  test("are deleted with their service, and connections to it dangle", async () => {
    const { db, host, tell, accountId } = await connected();
    world.tree.publish(db, KEYS);
    await tell.keys(db, 1n);
    await eventually("the keys are there", async () => (await host()) === "h1");
    world.tree.remove(db);
    await tell.serviceGone(db);
    await eventually("the connection dangles", async () => (await host()) === "service_not_found");
    expect((await world.pool.query("select from addon_keys where service_id = $1", [db])).rowCount).toBe(0);
    await tell.keys(db, 2n);
    await eventually("its going is told", async () => {
      const all = world.published(VariablesChangedSchema, accountId);
      return all.filter((change) => change.scope === "environment").length === 2;
    });
    expect(await host()).toBe("service_not_found");
  });

  test.each([
    ["as they were sent", ["next", "db"]],
    ["in the other order", ["db", "next"]],
    ["only the one that names its successor", ["db"]],
  ])(
    "are those of the addon that took the name, from its first event on: they arrive %s",
    async (_how, order) => {
      const { db, host, tell, accountId, E } = await connected();
      const next = world.tree.service(E.environmentId, "next", "postgres");
      world.tree.publish(db, KEYS);
      world.tree.publish(next, { HOST: "h9" });
      await tell.service("next", next, "postgres");
      await tell.keys(db, 1n);
      await tell.keys(next, 1n);
      await eventually("both keys are there", async () => {
        const { rowCount } = await world.pool.query(
          "select distinct service_id from addon_keys where service_id = any($1)",
          [[db, next]],
        );
        return rowCount === 2 && (await host()) === "h1";
      });
      const changes = () =>
        world.published(VariablesChangedSchema, accountId).filter(({ scope }) => scope === "environment");
      const before = changes().length;

      world.tree.rename(db, "aside");
      world.tree.rename(next, "db");
      world.tree.rename(db, "next");
      const renamed = (serviceId: string, name: string) => ({
        ...{ ...E, serviceId, name, type: "postgres" },
        namedAt: world.tree.namedAt(serviceId),
      });
      const events = {
        next: renamed(next, "db"),
        db: { ...renamed(db, "next"), successor: renamed(next, "db") },
      };
      const seen = new Set<string>();
      for (const which of order) {
        await world.publish(
          deployerEvents.ServiceRenamedSchema,
          accountId,
          events[which as keyof typeof events],
        );
        await eventually("the name leads to the other one", async () => {
          const found = await host();
          seen.add(found);
          return found === "h9";
        });
      }
      expect([...seen].filter((found) => found !== "h1" && found !== "h9")).toEqual([]);
      await eventually("running services are told", async () => changes().length > before);
      await eventually("the other one has its name too", async () => {
        const { rows } = await world.pool.query("select id, name from scopes where id = any($1)", [
          [db, next],
        ]);
        return rows.every(({ id, name }) => name === (id === db ? "next" : "db"));
      });
    },
  );
});
