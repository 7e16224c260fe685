import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import type {
  ResolvedVariableEvent,
  ResolvedVariables,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { deployerEvents, startVariables, type TestVariables } from "../testing.ts";

let world: TestVariables;

beforeAll(async () => {
  world = await startVariables();
});

afterAll(() => world.stop());

type Scene = ReturnType<typeof scene>;

function scene(services?: Record<string, string>) {
  const made = world.scene(services);
  return { ...made, editor: world.as(made.accountId), reader: world.as(made.accountId, "reader") };
}

/** One frame as a client applies it. */
type Applied = { mode: string | undefined; set: string[]; unset: string[]; id: string };

/** Follows the set of a service as a client does: what a frame changes applies at its commit. */
function follow(
  { accountId, S }: Scene,
  options: { lastEventId?: string; port?: number; client?: ReturnType<TestVariables["as"]> } = {},
) {
  const leaving = new AbortController();
  const client = options.client ?? world.as(accountId, "reader", options.port);
  const frames: Applied[] = [];
  const committed = new Map<string, string>();
  let incoming = new Map(committed);
  let frame: Applied = { mode: undefined, set: [], unset: [], id: "" };
  let ended: unknown;
  const apply = ({ id, event }: ResolvedVariableEvent) => {
    if (event.case === "begin") {
      frame.mode = event.value.mode;
      if (frame.mode === "full") incoming = new Map();
    } else if (event.case === "set") {
      const { name, variable, dangling } = event.value;
      frame.set.push(name);
      incoming.set(name, dangling ? `dangling: ${dangling.reason}` : (variable!.value ?? "withheld"));
    } else if (event.case === "unset") {
      frame.unset.push(event.value.name);
      incoming.delete(event.value.name);
    } else if (event.case === "commit") {
      expect(id).toBe(event.value.revision);
      committed.clear();
      for (const [name, value] of incoming) committed.set(name, value);
      frames.push({ ...frame, id });
      frame = { mode: undefined, set: [], unset: [], id: "" };
    }
    if (event.case !== "commit") expect(id).toBe("");
  };
  const { lastEventId } = options;
  const request = { ...S, ...(lastEventId !== undefined && { lastEventId }) };
  const done = (async () => {
    try {
      const events = client.followResolvedVariables(request, { signal: leaving.signal });
      for await (const event of events) apply(event);
    } catch (error) {
      ended = error;
    }
  })();
  const close = async () => {
    leaving.abort();
    await done;
  };
  return {
    frames,
    committed,
    close,
    ended: async () => {
      await done;
      return ended;
    },
    /** Waits for the first frame, or for the one after `count`. */
    frame: (count = 0): Promise<Applied> =>
      eventually(`frame ${count} arrives`, async () => frames[count] ?? orThrow(ended)),
    until: (what: string, fits: () => boolean) => eventually(what, async () => fits() || orThrow(ended)),
    lastId: () => frames.at(-1)!.id,
  };
}

function orThrow(error: unknown): undefined {
  if (error) throw error;
}

/** Returns a set that was read as followers see it. */
const shown = ({ data, dangling }: ResolvedVariables) =>
  new Map(
    [
      ...data.map(({ name, value }) => [name, value ?? "withheld"] as const),
      ...dangling.map(({ name, reason }) => [name, `dangling: ${reason}`] as const),
    ].sort(([one], [other]) => (one < other ? -1 : 1)),
  );
const sorted = (map: Map<string, string>) =>
  new Map([...map].sort(([one], [other]) => (one < other ? -1 : 1)));

test("a follower gets the whole set, then what each write changes, as a read shows it", async () => {
  const made = scene();
  const { P, E, S, editor, reader } = made;
  await editor.createVariable({ ...P, name: "LEVEL", value: "info" });
  await editor.createVariable({ ...P, name: "TOKEN", value: "hush", sensitive: true });
  await editor.createVariable({ ...S, name: "ALIAS", aliasTarget: "LEVEL" });
  const one = follow(made);
  expect(await one.frame()).toMatchObject({ mode: "full", set: ["ALIAS", "LEVEL", "TOKEN"], unset: [] });
  expect(Object.fromEntries(one.committed)).toEqual({ ALIAS: "info", LEVEL: "info", TOKEN: "withheld" });

  await editor.createVariable({ ...E, name: "LEVEL", value: "debug" });
  expect(await one.frame(1)).toMatchObject({ mode: "changes", set: ["LEVEL", "ALIAS"] });
  expect(Object.fromEntries(one.committed)).toEqual({ ALIAS: "debug", LEVEL: "debug", TOKEN: "withheld" });
  // A secret that was replaced looks as before, and is told.
  await editor.updateVariable({ ...P, variableName: "TOKEN", value: "hush2" });
  expect(await one.frame(2)).toMatchObject({ mode: "changes", set: ["TOKEN"] });
  await editor.batchVariables({
    ...E,
    set: [
      { name: "A", value: "1" },
      { name: "B", aliasTarget: "MISSING" },
    ],
    unset: ["LEVEL"],
    confirmImpact: true,
  });
  expect(await one.frame(3)).toMatchObject({ mode: "changes", unset: [] });
  expect(new Set(one.frames[3]!.set)).toEqual(new Set(["A", "B", "LEVEL", "ALIAS"]));
  await editor.deleteVariable({ ...P, variableName: "LEVEL", confirmImpact: true });
  expect(await one.frame(4)).toMatchObject({ set: ["ALIAS"], unset: ["LEVEL"] });
  const read = await reader.getResolvedVariables(S);
  expect(sorted(one.committed)).toEqual(shown(read));
  expect(JSON.stringify([...one.committed])).not.toContain("hush");
  await one.close();
});

test("what a write elsewhere does not change is not told", async () => {
  const made = scene({ web: "web", api: "web" });
  const { P, S, E, editor } = made;
  const one = follow(made);
  await one.frame();
  await editor.createVariable({ ...E, service: "api", name: "OTHER", value: "1" });
  const stranger = scene();
  await stranger.editor.createVariable({ ...stranger.P, name: "STRANGE", value: "1" });
  await editor.createVariable({ ...P, name: "MINE", value: "1" });
  await editor.createVariable({ ...S, name: "LAST", value: "1" });
  await one.until("the last is told", () => one.committed.has("LAST"));
  expect(new Set(one.frames.flatMap(({ set }) => set))).toEqual(new Set(["MINE", "LAST"]));
  await one.close();
});

test("addons: keys that are published or replaced, and names that begin to resolve", async () => {
  const made = scene({ web: "web", db: "postgres" });
  const { E, P, accountId, ids, editor } = made;
  const publish = async (values: Record<string, string>, revision: bigint) => {
    world.tree.publish(ids.db!, values, revision);
    const event = { accountId, serviceId: ids.db!, revision };
    await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, event);
  };
  await editor.createVariable({ ...P, name: "DATABASE_URL", connection: { service: "db", key: "URL" } });
  await editor.createVariable({ ...E, name: "PGHOST", connection: { service: "db", key: "HOST" } });
  await editor.createVariable({ ...E, name: "ALIAS", aliasTarget: "DATABASE_URL" });
  await editor.createVariable({ ...E, name: "PLAIN", value: "1" });
  const one = follow(made);
  await one.frame();
  expect(one.committed.get("PGHOST")).toMatch(/^dangling/);
  await publish({ URL: "postgres://one", HOST: "one" }, 1n);
  await one.until("they resolve", () => one.committed.get("PGHOST") === "one");
  expect(Object.fromEntries(one.committed)).toEqual({
    ...{ ALIAS: "withheld", DATABASE_URL: "withheld" },
    ...{ PGHOST: "one", PLAIN: "1" },
  });
  const before = one.frames.length;
  // A password that was rotated looks as before, and is told, as is what is an alias of it.
  await publish({ URL: "postgres://two", HOST: "one" }, 2n);
  expect(new Set((await one.frame(before)).set)).toEqual(new Set(["ALIAS", "DATABASE_URL", "PGHOST"]));
  await one.close();
});

test("config.env: a name that it gets, changes and loses, unless a variable has it", async () => {
  const made = scene();
  const { accountId, ids, S, editor, projectId, environmentId } = made;
  const serviceId = ids.web!;
  const configure = async (env: Record<string, string>) => {
    world.tree.configure(serviceId, env);
    const event = { accountId, projectId, environmentId, serviceId };
    await world.publish(deployerEvents.ServiceConfiguredSchema, accountId, event);
  };
  world.tree.configure(serviceId, { MODE: "one", LEVEL: "config" });
  await editor.createVariable({ ...S, name: "LEVEL", value: "variable" });
  const one = follow(made);
  await one.frame();
  expect(Object.fromEntries(one.committed)).toEqual({ MODE: "one", LEVEL: "variable" });
  await configure({ MODE: "two", LEVEL: "other" });
  await one.until("it is changed", () => one.committed.get("MODE") === "two");
  expect(one.frames.at(-1)).toMatchObject({ mode: "changes", set: ["MODE"] });
  await editor.deleteVariable({ ...S, variableName: "LEVEL" });
  await one.until("it is no longer shadowed", () => one.committed.get("LEVEL") === "other");
  await configure({});
  await one.until("it is gone", () => one.committed.size === 0);
  await one.close();
});

test("a client resumes after its last commit: with nothing, with what changed, or anew", async () => {
  const made = scene();
  const { P, E, S, editor } = made;
  await editor.createVariable({ ...P, name: "A", value: "1" });
  await editor.createVariable({ ...P, name: "TOKEN", value: "1", sensitive: true });
  const first = follow(made);
  await first.frame();
  const id = first.lastId();
  await first.close();
  const resume = async (lastEventId: string, port?: number) => {
    const one = follow(made, { lastEventId, ...(port && { port }) });
    const frame = await one.frame();
    await one.close();
    return frame;
  };
  expect(await resume(id)).toEqual({ mode: "none", set: [], unset: [], id });
  await editor.updateVariable({ ...P, variableName: "TOKEN", value: "2" });
  await editor.createVariable({ ...E, name: "B", aliasTarget: "TOKEN" });
  await editor.createVariable({ ...S, name: "C", value: "1" });
  await editor.deleteVariable({ ...S, variableName: "C" });
  const changes = await resume(id);
  expect(changes).toMatchObject({ mode: "changes", unset: ["C"] });
  expect(new Set(changes.set)).toEqual(new Set(["B", "TOKEN"]));
  const other = await world.startOne();
  expect(await resume(id, other.port)).toEqual(changes);
  await other.stop();
  const full = { mode: "full", set: ["A", "B", "TOKEN"], unset: [] };
  const [service, ...revisions] = id.split("-") as [string, ...string[]];
  const foreign = [
    "",
    "x",
    "-1",
    "'; drop table changes; --",
    "9".repeat(5_000),
    `${service}-${"9".repeat(15)}-0-0`,
    `${service}-${revisions.join("-")}-7`,
    `${scene().ids.web!.slice(4)}-${revisions.join("-")}`,
  ];
  for (const lastEventId of foreign)
    expect(await resume(lastEventId), lastEventId.slice(0, 50)).toMatchObject(full);
});

test("who was away while a name became that of another service is told what connections resolve to", async () => {
  const made = scene({ web: "web", spare: "postgres" });
  const { P, S, accountId, projectId, environmentId, ids, editor, reader } = made;
  const serviceId = ids.spare!;
  world.tree.publish(serviceId, { HOST: "spare" }, 1n);
  await world.publish(deployerEvents.AddonKeysPublishedSchema, accountId, {
    accountId,
    serviceId,
    revision: 1n,
  });
  await editor.createVariable({ ...P, name: "SPARE", connection: { service: "spare", key: "HOST" } });
  await editor.createVariable({ ...P, name: "PGHOST", connection: { service: "db", key: "HOST" } });
  const first = follow(made);
  await first.until("the keys came", () => first.committed.get("SPARE") === "spare");
  expect(first.committed.get("PGHOST")).toMatch(/^dangling/);
  const lastEventId = first.lastId();
  await first.close();

  world.tree.rename(serviceId, "db");
  const ofIt = { accountId, projectId, environmentId, serviceId, name: "db", type: "postgres" };
  const namedAt = timestampFromMs(Date.now());
  await world.publish(deployerEvents.ServiceRenamedSchema, accountId, { ...ofIt, namedAt });
  await eventually("the name is known", async () =>
    (await reader.getResolvedVariables(S)).data.some(({ name }) => name === "PGHOST"),
  );
  const back = follow(made, { lastEventId });
  expect(new Set((await back.frame()).set)).toEqual(new Set(["SPARE", "PGHOST"]));
  expect(back.frames[0]).toMatchObject({ mode: "changes", unset: [] });
  await back.close();
});

test("who was away for more revisions than are remembered, or for one of a process of the version before, begins anew", async () => {
  const made = scene();
  const { P, editor } = made;
  await editor.createVariable({ ...P, name: "A", value: "0" });
  const first = follow(made);
  await first.frame();
  const id = first.lastId();
  await first.close();
  for (let n = 1; n <= 101; n++) await editor.updateVariable({ ...P, variableName: "A", value: String(n) });
  const anew = follow(made, { lastEventId: id });
  expect(await anew.frame()).toMatchObject({ mode: "full", set: ["A"] });
  const { rows } = await world.pool.query("select count(*)::int as count from changes where scope_id = $1", [
    P.projectId,
  ]);
  expect(rows).toEqual([{ count: 100 }]);
  const recent = anew.lastId();

  // The version before raises the revision and records nothing: followers cannot know what changed.
  await world.pool.query("update scopes set revision = revision + 1 where id = $1", [P.projectId]);
  expect(await anew.frame(1)).toMatchObject({ mode: "full", set: ["A"] });
  await anew.close();
  const later = follow(made, { lastEventId: recent });
  expect(await later.frame()).toMatchObject({ mode: "full", set: ["A"] });
  await later.close();
});

test("a write through one process reaches all followers of another", async () => {
  const made = scene();
  const { P, editor } = made;
  const other = await world.startOne();
  const followers = Array.from({ length: 20 }, () => follow(made, { port: other.port }));
  for (const one of followers) await one.frame();
  await editor.createVariable({ ...P, name: "A", value: "1" });
  for (const one of followers) expect(await one.frame(1)).toMatchObject({ set: ["A"] });
  for (const one of followers) await one.close();
  await other.stop();
});

test("a stream ends when its service is deleted or its process stops, and is refused where a read is", async () => {
  const made = scene({ web: "web", db: "postgres" });
  const { accountId, projectId, environmentId, ids, S, reader, editor } = made;
  const one = follow(made);
  await one.frame();
  world.tree.remove(ids.web!);
  const event = { accountId, projectId, environmentId, serviceId: ids.web! };
  await world.publish(deployerEvents.ServiceDeletedSchema, accountId, event);
  expect(await refused(Promise.reject(await one.ended()))).toBe("404 not_found");

  const open = (client: ReturnType<TestVariables["as"]>, path: object) =>
    (async () => {
      for await (const event of client.followResolvedVariables({ ...S, ...path })) return event;
    })();
  expect(await refused(open(reader, {}))).toBe("404 not_found");
  expect(await refused(open(reader, { service: "db" }))).toBe("404 not_found");
  expect(await refused(open(scene().reader, {}))).toBe("403 forbidden");

  const living = scene();
  const second = await world.startOne();
  const stopped = follow(living, { port: second.port });
  await stopped.frame();
  await second.stop();
  expect(await refused(Promise.reject(await stopped.ended()))).toBe("503 unavailable");

  await living.editor.createVariable({ ...living.P, name: "A", value: "1" });
  await world.pool.query("update variables set sealed = '\\x0102' where scope_id = $1", [living.projectId]);
  expect(await refused(open(living.reader, living.S))).toBe("503 unavailable");
  expect(await refused(open(editor, {}))).toBe("404 not_found");
});
