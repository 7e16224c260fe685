import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VariablesChangedSchema } from "../../../proto/gen/berth/variables/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { deployerEvents as events, startVariables, type TestVariables } from "../testing.ts";

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
      world.publish(events.ServiceCreatedSchema, accountId, { ...made.E, serviceId, name, type }),
    serviceGone: (serviceId: string) =>
      world.publish(events.ServiceDeletedSchema, accountId, { ...made.E, serviceId }),
    keys: (serviceId: string, revision: bigint) =>
      world.publish(events.AddonKeysPublishedSchema, accountId, { accountId, serviceId, revision }),
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
});
