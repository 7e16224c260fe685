import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type EnvironmentEvent,
  EnvironmentEventSchema,
  FollowEnvironmentRequestSchema,
  type ServiceState,
} from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { newId } from "../../../kit/ids.ts";
import { createLog } from "../../../kit/log.ts";
import { startChangeFeed } from "../../../kit/postgres/change-feed.ts";
import { refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { serviceWithRuns } from "../../jobs/testing.ts";
import { actAs, archiveOf, startDeployer, type TestDeployer } from "../../testing/testing.ts";
import { streamEnvironment } from "./environment.ts";
import { createFollowedEnvironments } from "./followed-environments.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

type Path = { accountId: string; projectId: string; environmentId: string };
type Applied = { mode: string | undefined; set: string[]; unset: string[]; id: string };

/** Follows an environment as a client does: what a frame changes applies at its commit. */
function apply(events: AsyncIterable<EnvironmentEvent>, leaving: AbortController) {
  const frames: Applied[] = [];
  const shown = new Map<string, ServiceState>();
  /** Every state that a service was shown in. */
  const history: ServiceState[] = [];
  let incoming = new Map(shown);
  let frame: Applied = { mode: undefined, set: [], unset: [], id: "" };
  let failure: unknown;
  const take = ({ id, event }: EnvironmentEvent) => {
    expect(id !== "").toBe(event.case === "commit");
    if (event.case === "begin") {
      frame.mode = event.value.mode;
      if (frame.mode === "full") incoming = new Map();
    } else if (event.case === "set") {
      incoming.set(event.value.id, event.value);
      history.push(event.value);
      frame.set.push(event.value.name);
    } else if (event.case === "unset") {
      incoming.delete(event.value.id);
      frame.unset.push(event.value.id);
    } else if (event.case === "commit") {
      shown.clear();
      for (const [key, value] of incoming) shown.set(key, value);
      frames.push({ ...frame, id });
      frame = { mode: undefined, set: [], unset: [], id: "" };
    }
  };
  const done = (async () => {
    try {
      for await (const event of events) take(event);
    } catch (error) {
      failure = error;
    }
  })();
  const orThrow = () => {
    if (failure) throw failure;
    return undefined;
  };
  const named = (name: string) => [...shown.values()].find((one) => one.name === name);
  return {
    frames,
    shown,
    history,
    named,
    frame: (count = 0): Promise<Applied> =>
      eventually(`frame ${count}`, async () => frames[count] ?? orThrow()),
    until: (what: string, name: string, fits: (state: ServiceState) => boolean) =>
      eventually(`${name}: ${what}`, async () => {
        const state = named(name);
        return (state && fits(state) && state) || orThrow();
      }),
    failed: async () => {
      await done;
      return refused(Promise.reject(failure));
    },
    close: async () => {
      leaving.abort();
      await done;
    },
  };
}

function follow(acting: Pick<ReturnType<typeof actAs>, "catalog">, path: Path, lastEventId?: string) {
  const leaving = new AbortController();
  const request = { ...path, ...(lastEventId !== undefined && { lastEventId }) };
  return apply(acting.catalog.followEnvironment(request, { signal: leaving.signal }), leaving);
}

async function scene() {
  const acting = actAs(berth.port, newId("acc"));
  const { accountId, projectId, environmentId, at } = await acting.environment();
  return { ...acting, at, E: { accountId, projectId, environmentId } };
}

test("runs are shown until they end, each with whether it has started", async () => {
  const { path, catalog, runs, run, waiting, go } = await serviceWithRuns(berth);
  const shown = follow({ catalog }, path);
  await shown.until("has none", "web", (state) => state.runs.length === 0);
  const first = await run(waiting);
  await shown.until("runs it", "web", ({ runs: [one] }) => one?.id === first.id && one.status === "running");
  const second = await run("sleep 600");
  await shown.until("runs both", "web", (state) => {
    const [newest, oldest] = state.runs;
    return newest?.id === second.id && newest.status === "running" && oldest?.id === first.id;
  });
  await runs.cancelRun({ ...path, runId: second.id });
  await shown.until("runs the first", "web", (state) => state.runs.map((one) => one.id).join() === first.id);
  go();
  await shown.until("runs none", "web", (state) => state.runs.length === 0);
  // Changes that follow at once are shown as one, so that they may not be seen while they are queued.
  const seen = shown.history.flatMap((state) => state.runs.map((one) => one.status));
  expect(["queued", "running"]).toEqual(expect.arrayContaining(seen));
  await shown.close();
});

test("a service is shown from its creation to its removal: stages, release, address, replicas", async () => {
  const made = await scene();
  const { E, at, catalog } = made;
  const one = follow(made, E);
  expect(await one.frame()).toMatchObject({ mode: "full", set: [] });
  const config = { minReadySeconds: 0, replicas: 2 };
  const { id } = await catalog.createService({ ...E, name: "web", type: "web", config });
  await one.until("is there", "web", ({ status }) => status === "pending");
  const app = `require("node:http").createServer((_, to) => to.end("ok")).listen(process.env.PORT);`;
  // Long enough to be seen: changes that follow at once are shown as one.
  const built = '{"scripts":{"build":"sleep 1","start":"node server.js"}}';
  await made.deployArchive(at("web"), await archiveOf({ "package.json": built, "server.js": app }));
  const running = await one.until("runs", "web", ({ status }) => status === "running");
  expect(running).toMatchObject({
    type: "web",
    release: { version: 1 },
    replicas: { wanted: 2, available: 2 },
    pendingChanges: false,
  });
  expect(running.deployment).toBeUndefined();
  expect(running.url).toBe((await catalog.getService(at("web"))).url);
  const stages = new Set(one.history.flatMap(({ deployment }) => deployment?.buildStage ?? []));
  expect(stages.size).toBeGreaterThan(0);
  expect(one.history.find(({ deployment }) => deployment?.status === "applied")?.status).toBe("deploying");

  await catalog.updateService({ ...at("web"), config: { port: 9090 } });
  await one.until("has pending changes", "web", ({ pendingChanges }) => pendingChanges);
  await catalog.updateService({ ...at("web"), config: { replicas: 1 } });
  await one.until("is scaled", "web", ({ replicas }) => replicas?.wanted === 1 && replicas.available === 1);
  await catalog.updateService({ ...at("web"), name: "shop" });
  expect((await one.until("has another name", "shop", () => true)).id).toBe(id);
  await catalog.deleteService({ ...at("shop"), confirmImpact: true });
  await eventually("it is gone", async () => one.shown.size === 0);
  expect(one.frames.some(({ unset }) => unset.includes(id))).toBe(true);
  await one.close();
});

test("addons are shown as services are", async () => {
  const made = await scene();
  const one = follow(made, made.E);
  await one.frame();
  await made.catalog.createService({ ...made.E, name: "db", type: "redis" });
  const db = await one.until("runs", "db", ({ status }) => status === "running");
  expect(db).toMatchObject({ type: "redis", replicas: { wanted: 1, available: 1 } });
  expect(one.history.find(({ name }) => name === "db")?.status).toBe("deploying");
  await one.close();
});

test("followers see that backups of an addon changed: begun, ended, restored, proved, deleted", async () => {
  const made = await scene();
  const one = follow(made, made.E);
  await one.frame();
  await made.catalog.createService({ ...made.E, name: "web", type: "web" });
  const { id } = await made.catalog.createService({ ...made.E, name: "db", type: "redis" });
  await one.until("runs", "db", ({ status }) => status === "running");
  const changes = async (what: string, sql: string) => {
    const before = one.named("db")!.backupsRevision;
    expect(before).toBeTypeOf("string");
    await berth.pool.query(sql.replaceAll("ADDON", `'${id}'`));
    await one.until(what, "db", ({ backupsRevision }) => backupsRevision !== before);
  };
  await changes(
    "a backup was begun",
    `insert into backups (id, account_id, service_id, type, trigger, due_at)
     values ('bkp_' || ADDON, 'acc_x', ADDON, 'redis', 'manual', null)`,
  );
  await changes("it has ended", "update backups set status = 'succeeded' where service_id = ADDON");
  await changes(
    "a restore was begun",
    "insert into restores (service_id, backup_id, due_at) values (ADDON, 'bkp_' || ADDON, null)",
  );
  await changes("that has ended", "update restores set status = 'failed' where service_id = ADDON");
  await berth.pool.query(
    `insert into proofs (night, backup_id, service_id, environment_id, type, due_at)
     values ('2026-01-01', 'bkp', $1, 'env', 'redis', null)`,
    [id],
  );
  await changes("it was proved", "update proofs set status = 'succeeded' where service_id = ADDON");
  await changes("it was deleted", "update backups set deleting_at = now() where service_id = ADDON");
  expect(one.named("web")).toBeDefined();
  expect(one.named("web")!.backupsRevision).toBeUndefined();
  await one.close();
});

/** Changes what a service shows, as any process of the deployer does. */
const say = (serviceId: string, message: string) =>
  berth.pool.query("update services set runtime_message = $2 where id = $1", [serviceId, message]);

test("a client resumes after its last commit: with nothing, with what changed, or anew", async () => {
  const made = await scene();
  const { E, catalog, at } = made;
  const ids: string[] = [];
  for (const name of ["a", "b", "c"]) ids.push((await catalog.createService({ ...E, name, type: "web" })).id);
  const resume = async (lastEventId?: string) => {
    const one = follow(made, E, lastEventId);
    const frame = await one.frame();
    await one.close();
    return frame;
  };
  // While any transaction of the server is older than what was written here, that counts as unseen.
  const id = await eventually("nothing is told twice", async () => {
    const { id: last } = await resume();
    const { mode, set, unset } = await resume(last);
    return mode === "none" && set.length + unset.length === 0 && last;
  });
  for (let n = 0; n < 5; n++) await say(ids[0]!, `message ${n}`);
  await catalog.deleteService(at("c"));
  await eventually("it is removed", async () => {
    const { rowCount } = await berth.pool.query("select from services where id = $1", [ids[2]]);
    return rowCount === 0;
  });
  expect(await resume(id)).toMatchObject({ mode: "changes", set: ["a"], unset: [ids[2]] });

  const full = { mode: "full", set: ["a", "b"], unset: [] };
  const [own, xid, seconds] = id.split("-") as [string, string, string];
  const foreign = [
    ...["", "x", "'; drop table services; --", "9".repeat(5_000), `${own}-${"9".repeat(15)}-${seconds}`],
    `${newId("env").slice(4)}-${xid}-${seconds}`,
    `${own}-${xid}-${Number(seconds) - 601}`,
  ];
  for (const lastEventId of foreign)
    expect(await resume(lastEventId), lastEventId.slice(0, 40)).toMatchObject(full);

  // Ten thousand changes of many services are one whole set.
  await berth.pool.query(
    `insert into environment_changes (environment_id, service_id) select $1, 'svc_' || n from generate_series(1, 10000) n`,
    [E.environmentId],
  );
  expect(await resume(id)).toMatchObject(full);
});

test("a change that commits late, after changes that began later, is not lost to who resumes in between", async () => {
  const made = await scene();
  const { E, catalog } = made;
  const late = await catalog.createService({ ...E, name: "late", type: "web" });
  const early = await catalog.createService({ ...E, name: "early", type: "web" });
  await catalog.createService({ ...E, name: "quiet", type: "web" });
  // While any transaction of the server is older than what was written here, that counts as unseen.
  await eventually("nothing is told twice", async () => {
    const before = follow(made, E);
    const { id } = await before.frame();
    await before.close();
    const after = follow(made, E, id);
    const { mode } = await after.frame();
    await after.close();
    return mode === "none";
  });
  const tx = await berth.pool.connect();
  await tx.query("begin");
  await tx.query("update services set runtime_message = 'late', runtime_state = 'degraded' where id = $1", [
    late.id,
  ]);
  await say(early.id, "early");
  const first = follow(made, E);
  const { id } = await first.frame();
  await first.close();
  await tx.query("commit");
  tx.release();
  const resumed = follow(made, E, id);
  const { mode, set } = await resumed.frame();
  expect(mode).toBe("changes");
  expect(set).toContain("late");
  await resumed.close();
});

test("a process that lost its session still tells of changes, and another process does too", async () => {
  const { E, catalog } = await scene();
  const { id } = await catalog.createService({ ...E, name: "web", type: "web", staged: true });
  const url = berth.database.url("deployer");
  const log = createLog("test", "silent");
  const changes = await startChangeFeed({ url, name: "deployer-follow", log, fallbackMs: 1_000 });
  const followed = createFollowedEnvironments({ pool: berth.pool, changes, log });
  const leaving = new AbortController();
  const request = create(FollowEnvironmentRequestSchema, E);
  const messages = streamEnvironment({ pool: berth.pool, followed }, request, leaving.signal);
  const events = (async function* () {
    for await (const message of messages) yield create(EnvironmentEventSchema, message);
  })();
  const one = apply(events, leaving);
  await one.frame();
  await berth.pool.query("update services set staged = false where id = $1", [id]);
  await one.until("is no longer staged", "web", ({ staged }) => !staged);
  await berth.pool.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deployer-follow'",
  );
  await berth.pool.query("update services set staged = true where id = $1", [id]);
  await one.until("is staged", "web", ({ staged }) => staged);
  await one.close();
  await followed.stop();
  await changes.stop();
});

test("who may not read it is refused, and the stream of one that is deleted ends", async () => {
  const made = await scene();
  const { E, catalog } = made;
  const stranger = await scene();
  const open = async (by: ReturnType<typeof actAs>, path: Path) => {
    for await (const event of by.catalog.followEnvironment(path)) return event;
    return undefined;
  };
  expect(await refused(open(stranger, E))).toBe("403 forbidden");
  expect(await refused(open(stranger, { ...E, accountId: stranger.E.accountId }))).toBe("404 not_found");
  expect(await refused(open(made, { ...E, environmentId: newId("env") }))).toBe("404 not_found");
  const one = follow(made, E);
  await one.frame();
  await catalog.deleteEnvironment(E);
  expect(await one.failed()).toBe("404 not_found");
});
