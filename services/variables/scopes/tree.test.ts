import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { transaction } from "../../kit/postgres/db.ts";
import { counting } from "../../kit/testing/explaining.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { deployerEvents as events, startTree, startVariables, type TestVariables } from "../testing.ts";
import { deleteProjects } from "./tree.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  const { accountId, projectId, environmentId } = made;
  const tell = {
    project: () => world.publish(events.ProjectCreatedSchema, accountId, { accountId, projectId }),
    environment: () =>
      world.publish(events.EnvironmentCreatedSchema, accountId, { accountId, projectId, environmentId }),
    service: (name: string, serviceId: string, type = "web", namedAt?: Timestamp) =>
      world.publish(events.ServiceCreatedSchema, accountId, { ...made.E, serviceId, name, type, namedAt }),
    projectGone: () => world.publish(events.ProjectDeletedSchema, accountId, { accountId, projectId }),
    environmentGone: () => world.publish(events.EnvironmentDeletedSchema, accountId, made.E),
    serviceGone: (serviceId: string) =>
      world.publish(events.ServiceDeletedSchema, accountId, { ...made.E, serviceId }),
  };
  return { ...made, tell, editor: world.as(accountId) };
}

const known = async (id: string) =>
  (await world.pool.query("select deleted_at from scopes where id = $1", [id])).rows[0] as
    | { deleted_at: unknown }
    | undefined;
const isGone = (id: string) => eventually(`${id} is gone`, async () => (await known(id))?.deleted_at);
const isKnown = (id: string) => eventually(`${id} is known`, async () => (await known(id)) !== undefined);
const stored = async (scopeId: string) =>
  (await world.pool.query("select from variables where scope_id = $1", [scopeId])).rowCount;

describe("the scope tree", () => {
  test("follows the deployer's events, and asks nothing about scopes that it knows", async () => {
    const { S, ids, tell, editor } = scene();
    await tell.project();
    await tell.environment();
    await tell.service("web", ids.web!);
    await isKnown(ids.web!);
    const before = world.tree.asked.scopes;
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await editor.getResolvedVariables(S);
    expect(world.tree.asked.scopes).toBe(before);
  });

  test("asks the deployer once for a scope whose event has not arrived", async () => {
    const { S, P, tell, ids, editor } = scene();
    const before = world.tree.asked.scopes;
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await editor.createVariable({ ...P, name: "A", value: "1" });
    expect(world.tree.asked.scopes).toBe(before + 1);
    await tell.service("web", ids.web!);
    await tell.project();
    const later = newId("svc");
    await tell.service("later", later);
    await isKnown(later);
    expect((await editor.getResolvedVariables(S)).data).toHaveLength(1);
  });

  test("takes events in any order, and twice", async () => {
    const { S, E, ids, tell, editor } = scene();
    await tell.service("web", ids.web!);
    await tell.service("web", ids.web!);
    await tell.environment();
    await tell.project();
    const last = newId("svc");
    await tell.service("last", last);
    await isKnown(last);
    const before = world.tree.asked.scopes;
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await editor.createVariable({ ...E, name: "A", value: "1" });
    expect(world.tree.asked.scopes).toBe(before);
  });

  test("answers 503 for unknown scopes while the deployer is away, and serves the others", async () => {
    const { P, E, accountId, editor } = scene();
    await editor.createVariable({ ...E, name: "A", value: "1" });
    const away = await startTree();
    await away.stop();
    const other = await world.startOne({ DEPLOYER_URL: away.url });
    const there = world.as(accountId, "editor", other.port);
    expect(await refused(there.listVariables({ ...E, service: "web" }))).toBe("503 unavailable");
    expect((await there.getVariable({ ...E, variableName: "A" })).value).toBe("1");
    const connection = { service: "unheard-of", key: "URL" };
    expect(await there.createVariable({ ...E, name: "C", connection })).toMatchObject({ connection });
    expect(await there.createVariable({ ...P, name: "C", connection })).toMatchObject({ connection });
    await other.stop();
  });
});

describe("a scope whose deletion was announced", () => {
  const doubted = async (id: string) =>
    (await world.pool.query("select from doubts where scope_id = $1", [id])).rowCount === 1;

  test("is looked up at each use until the deletion is certain, and stays when there was none", async () => {
    const { P, E, S, editor, projectId } = scene();
    for (const base of [P, E, S]) await editor.createVariable({ ...base, name: "A", value: "1" });
    await world.service().announceDeletion({ scopeId: projectId });
    const before = world.tree.asked.scopes;
    for (const base of [P, E, S]) expect((await editor.listVariables(base)).data).toHaveLength(1);
    expect([world.tree.asked.scopes - before, await doubted(projectId)]).toEqual([3, true]);
    // Long after, the deletion can no longer be under way.
    await world.pool.query("update doubts set at = now() - interval '3 minutes'");
    expect((await editor.listVariables(S)).data).toHaveLength(1);
    expect(await doubted(projectId)).toBe(false);
    const asked = world.tree.asked.scopes;
    await editor.listVariables(S);
    expect(world.tree.asked.scopes).toBe(asked);
  });

  test("is looked up also when a replica of the previous version took the announcement", async () => {
    const { S, editor, environmentId } = scene();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await editor.listVariables(S);
    await world.pool.query("insert into doubts (scope_id) values ($1)", [environmentId]);
    world.tree.remove(environmentId);
    expect(await refused(editor.listVariables(S))).toBe("404 not_found");
  });

  test("is 404 for reads, writes and releases before its event, and 503 while the deployer is away", async () => {
    const { E, S, accountId, ids, environmentId, tell, editor } = scene();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await world.service().announceDeletion({ scopeId: environmentId });
    const away = await startTree();
    await away.stop();
    const other = await world.startOne({ DEPLOYER_URL: away.url });
    const there = world.as(accountId, "editor", other.port);
    expect(await refused(there.listVariables(S))).toBe("503 unavailable");
    expect(await refused(there.createVariable({ ...S, name: "B", value: "1" }))).toBe("503 unavailable");
    await other.stop();
    world.tree.remove(environmentId);
    expect(await refused(editor.listVariables(S))).toBe("404 not_found");
    expect(await refused(editor.createVariable({ ...E, name: "B", value: "1" }))).toBe("404 not_found");
    expect(await refused(world.service().resolveRelease({ serviceId: ids.web! }))).toBe("404 not_found");
    await tell.environmentGone();
    await isGone(environmentId);
    expect(await doubted(environmentId)).toBe(false);
  });

  test("its impact is never a wrong count: 503 while the deployer is away", async () => {
    const { P, accountId, editor } = scene();
    await editor.createVariable({ ...P, name: "A", value: "1" });
    const away = await startTree();
    await away.stop();
    const other = await world.startOne({ DEPLOYER_URL: away.url });
    const there = world.as(accountId, "editor", other.port);
    const variable = { ...P, variableName: "A" };
    expect(await refused(there.getVariableImpact(variable))).toBe("503 unavailable");
    expect(await refused(there.deleteVariable(variable))).toBe("503 unavailable");
    expect(await refused(there.batchVariables({ ...P, unset: ["A"] }))).toBe("503 unavailable");
    await there.deleteVariable({ ...variable, confirmImpact: true });
    await other.stop();
  });
});

describe("a renamed service", () => {
  /** Two services, the second of which took the name `web` once the first had given it up; variables knows neither. */
  function renamed() {
    const made = scene();
    const { E, ids, tell, environmentId, accountId, editor } = made;
    const [first, born] = [ids.web!, world.tree.namedAt(ids.web!)];
    const named = async () =>
      (await editor.listVariables({ ...E, service: "web" })).data.map(({ name }) => name);
    const facts = (serviceId: string, name: string, namedAt = world.tree.namedAt(serviceId)) => ({
      ...{ ...E, serviceId, name, type: "web" },
      namedAt,
    });
    const rename = async (serviceId: string, name: string) => {
      await world.service().announceRename({ serviceId });
      world.tree.rename(serviceId, name);
      return facts(serviceId, name);
    };
    return {
      ...{ ...made, first, named, rename, site: { ...E, service: "site" } },
      created: () => tell.service("web", first, "web", born),
      second: () => world.tree.service(environmentId, "web"),
      tellRenamed: (event: ReturnType<typeof facts>) =>
        world.publish(events.ServiceRenamedSchema, accountId, event),
    };
  }
  const nameOf = async (id: string) =>
    (await world.pool.query("select name from scopes where id = $1", [id])).rows[0]?.name;
  const isNamed = (id: string, name: string | null) =>
    eventually(`${id} is ${name}`, async () => (await nameOf(id)) === name);

  test("is at its new path at once and not at the former one, on every replica, before its event", async () => {
    const { S, site, accountId, first, rename, editor } = renamed();
    const other = await world.startOne();
    const there = world.as(accountId, "editor", other.port);
    await editor.createVariable({ ...S, name: "A", value: "1" });
    for (const replica of [editor, there]) expect((await replica.listVariables(S)).data).toHaveLength(1);
    await rename(first, "site");
    for (const replica of [editor, there]) {
      expect(await refused(replica.listVariables(S))).toBe("404 not_found");
      expect(await refused(replica.createVariable({ ...S, name: "B", value: "1" }))).toBe("404 not_found");
      expect((await replica.listVariables(site)).data).toHaveLength(1);
    }
    await there.createVariable({ ...site, name: "B", value: "2" });
    expect((await editor.getResolvedVariables(site)).data).toHaveLength(2);
    expect((await world.service().resolveRelease({ serviceId: first })).data).toHaveLength(2);
    await other.stop();
  });

  test("is no longer at its former path once the announcement has expired", async () => {
    const { S, site, first, rename, tellRenamed, editor } = renamed();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await editor.listVariables(S);
    await tellRenamed(await rename(first, "site"));
    await isNamed(first, "site");
    await world.pool.query("update doubts set at = now() - interval '3 minutes'");
    expect((await editor.listVariables(site)).data).toHaveLength(1);
    const asked = world.tree.asked.scopes;
    expect((await editor.listVariables(site)).data).toHaveLength(1);
    expect(world.tree.asked.scopes).toBe(asked);
    expect(await refused(editor.listVariables(S))).toBe("404 not_found");
  });

  test("has no name while it is renamed, by which a replica of the previous version would delete it", async () => {
    const { S, site, first, rename, editor } = renamed();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    expect(await nameOf(first)).toBe("web");
    await rename(first, "site");
    expect(await nameOf(first)).toBe(null);
    expect((await editor.listVariables(site)).data).toHaveLength(1);
    expect(await nameOf(first)).toBe("site");
  });

  test("stays where it was when the rename did not happen", async () => {
    const { S, first, editor } = renamed();
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await world.service().announceRename({ serviceId: first });
    expect((await editor.listVariables(S)).data).toHaveLength(1);
    await editor.createVariable({ ...S, name: "B", value: "1" });
    expect((await editor.listVariables(S)).data).toHaveLength(2);
    expect(await nameOf(first)).toBe("web");
  });

  test("keeps its variables when another gets its name, in whatever order and way the names arrive", async () => {
    for (const order of ["event first", "created first", "read first", "all late"]) {
      const made = renamed();
      const { S, site, first, tell, named, rename, tellRenamed, editor } = made;
      await editor.createVariable({ ...S, name: "OLD", value: "1" });
      const event = await rename(first, "site");
      const next = made.second();
      const told = () => tell.service("web", next, "web", world.tree.namedAt(next));
      if (order === "event first") await tellRenamed(event);
      if (order !== "read first" && order !== "all late") {
        await told();
        await isKnown(next);
      }
      if (order === "read first") expect(await named()).toEqual([]);
      await editor.createVariable({ ...S, name: "NEW", value: "1" });
      for (const late of [tellRenamed(event), made.created(), told()]) await late;
      await isNamed(first, "site");
      const last = newId("svc");
      await tell.service("last", last);
      await isKnown(last);
      expect([order, await named(), await nameOf(next)]).toEqual([order, ["NEW"], "web"]);
      expect((await editor.listVariables(site)).data).toMatchObject([{ name: "OLD" }]);
      expect((await world.service().resolveRelease({ serviceId: first })).data).toMatchObject([
        { name: "OLD" },
      ]);
      expect((await world.service().resolveRelease({ serviceId: next })).data).toMatchObject([
        { name: "NEW" },
      ]);
    }
  });

  test("takes its former name back, and older events and answers change nothing", async () => {
    const made = renamed();
    const { E, S, first, tell, named, rename, tellRenamed, editor } = made;
    await editor.createVariable({ ...S, name: "OLD", value: "1" });
    const away = await rename(first, "site");
    const next = made.second();
    const born = world.tree.namedAt(next);
    expect(await named()).toEqual([]);
    await editor.createVariable({ ...S, name: "NEW", value: "1" });
    const over = await rename(next, "other");
    const back = await rename(first, "web");
    expect(await named()).toEqual(["OLD"]);
    await tellRenamed(back);
    await tellRenamed(away);
    await tell.service("web", next, "web", born);
    await made.created();
    await tellRenamed(over);
    await isNamed(next, "other");
    expect([await nameOf(first), await named()]).toEqual(["web", ["OLD"]]);
    expect((await editor.listVariables({ ...E, service: "other" })).data).toMatchObject([{ name: "NEW" }]);
    await tell.serviceGone(next);
    await isGone(next);
    expect(await named()).toEqual(["OLD"]);
  });

  test("that was deleted does not take a name from the service that has it", async () => {
    const made = renamed();
    const { S, first, tell, named, rename, tellRenamed, editor } = made;
    const next = made.second();
    const event = await rename(first, "site");
    world.tree.rename(next, "web");
    await editor.createVariable({ ...S, name: "NEW", value: "1" });
    await tell.serviceGone(first);
    await isGone(first);
    await made.created();
    await tellRenamed(event);
    const last = newId("svc");
    await tell.service("last", last);
    await isKnown(last);
    expect([await named(), await nameOf(next)]).toEqual([["NEW"], "web"]);
  });
});

describe("a deleted scope", () => {
  test("takes its variables and all scopes below it along", async () => {
    const { P, E, S, ids, tell, editor, projectId, environmentId } = scene({ web: "web", api: "web" });
    const api = { ...E, service: "api" };
    for (const base of [P, E, S, api]) await editor.createVariable({ ...base, name: "A", value: "1" });
    world.tree.remove(ids.web!);
    await tell.serviceGone(ids.web!);
    await isGone(ids.web!);
    expect(await stored(ids.web!)).toBe(0);
    expect(await refused(editor.listVariables(S))).toBe("404 not_found");
    expect((await editor.listVariables(api)).data).toHaveLength(1);
    world.tree.remove(environmentId);
    await tell.environmentGone();
    await isGone(environmentId);
    expect([await stored(ids.api!), await stored(environmentId), await stored(projectId)]).toEqual([0, 0, 1]);
    expect(await refused(editor.createVariable({ ...api, name: "B", value: "1" }))).toBe("404 not_found");
    world.tree.remove(projectId);
    await tell.projectGone();
    await isGone(projectId);
    expect(await stored(projectId)).toBe(0);
    expect(await refused(editor.listVariables(P))).toBe("404 not_found");
    expect(await refused(world.service().resolveRelease({ serviceId: ids.api! }))).toBe("404 not_found");
  });

  test("does not come back by a late event or a late answer of the deployer", async () => {
    const { P, E, S, ids, tell, editor, projectId, environmentId } = scene({ web: "web", api: "web" });
    await editor.createVariable({ ...S, name: "A", value: "1" });
    await tell.serviceGone(ids.web!);
    await isGone(ids.web!);
    await tell.service("web", ids.web!);
    // Here the deployer still answers with the service, as a delayed answer would.
    expect(await refused(editor.createVariable({ ...S, name: "A", value: "1" }))).toBe("404 not_found");
    await tell.environmentGone();
    await isGone(environmentId);
    for (const base of [E, { ...E, service: "api" }])
      expect(await refused(editor.listVariables(base))).toBe("404 not_found");
    await tell.projectGone();
    await isGone(projectId);
    await tell.service("api", ids.api!);
    await tell.environment();
    await tell.project();
    const other = scene();
    await other.tell.project();
    await isKnown(other.projectId);
    for (const base of [P, E, S]) expect(await refused(editor.listVariables(base))).toBe("404 not_found");
  });

  test("that was never known stays deleted", async () => {
    const { P, E, S, ids, tell, editor, projectId, environmentId } = scene();
    await tell.serviceGone(ids.web!);
    await isGone(ids.web!);
    expect(await refused(editor.listVariables(S))).toBe("404 not_found");
    expect((await editor.listVariables(E)).data).toEqual([]);
    const other = scene();
    await other.tell.environmentGone();
    await isGone(other.environmentId);
    expect(await refused(other.editor.listVariables(other.S))).toBe("404 not_found");
    expect((await other.editor.listVariables(other.P)).data).toEqual([]);
    await tell.projectGone();
    await isGone(projectId);
    expect(await refused(editor.listVariables(P))).toBe("404 not_found");
    expect((await known(environmentId))?.deleted_at).not.toBeNull();
  });

  test("leaves its name to a new service, which starts empty", async () => {
    const { S, E, ids, tell, editor, environmentId } = scene();
    await editor.createVariable({ ...S, name: "OLD", value: "1" });
    world.tree.remove(ids.web!);
    const next = world.tree.service(environmentId, "web");
    await tell.service("web", next, "web", world.tree.namedAt(next));
    await isKnown(next);
    expect((await editor.listVariables(S)).data).toEqual([]);
    await editor.createVariable({ ...S, name: "NEW", value: "1" });
    await tell.serviceGone(ids.web!);
    await tell.service("web", ids.web!);
    const last = newId("svc");
    await tell.service("last", last);
    await isKnown(last);
    expect((await editor.listVariables(S)).data.map((variable) => variable.name)).toEqual(["NEW"]);
    expect((await editor.listVariables({ ...E, service: "last" })).data).toEqual([]);
  });

  test("and writes that race with the deletion leave nothing behind", async () => {
    for (let round = 0; round < 10; round++) {
      const { E, S, P, ids, tell, editor, projectId } = scene();
      if (round % 2 === 0) await editor.listVariables(S);
      const set = Array.from({ length: 20 }, (_, i) => ({ name: `N${i}`, value: "x" }));
      const writes = [S, E, P, S].map((base) =>
        editor.batchVariables({ ...base, set }).catch(() => undefined),
      );
      await tell.projectGone();
      await Promise.all(writes);
      await isGone(projectId);
      await editor.listVariables(S).catch(() => undefined);
      for (const id of [projectId, E.environmentId, ids.web!]) expect(await stored(id)).toBe(0);
      expect(await refused(editor.listVariables(P))).toBe("404 not_found");
    }
  });
});

test("all projects of an account are deleted in as many statements as one, with all that is in them", async () => {
  const statementsFor = async (projects: number) => {
    const accountId = newId("acc");
    const scopes = `insert into scopes (id, account_id, parent_id, kind)
      select kind || n || $1, $1, case kind when 'environment' then 'project' || n || $1 end, kind
      from generate_series(1, $2::int) n, unnest(array['project', 'environment']) kind`;
    await world.pool.query(scopes, [accountId, projects]);
    const variables = `insert into variables (scope_id, name, id, revision, sensitive, alias_target)
      select id, 'A', id, 1, false, 'B' from scopes where account_id = $1`;
    await world.pool.query(variables, [accountId]);
    const statements = await transaction(world.pool, async (tx) => {
      const { db, counted } = counting(tx);
      await deleteProjects(db, accountId);
      return counted.statements;
    });
    const left = `select s.id from scopes s left join variables v on v.scope_id = s.id
      where s.account_id = $1 and (s.deleted_at is null or v.id is not null)`;
    expect((await world.pool.query(left, [accountId])).rows).toEqual([]);
    return statements;
  };
  expect(await statementsFor(30)).toBe(await statementsFor(1));
});
