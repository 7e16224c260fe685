import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../../kit/ids.ts";
import { createLog } from "../../../kit/log.ts";
import { startChangeFeed } from "../../../kit/postgres/change-feed.ts";
import { refused } from "../../../kit/testing/refusal.ts";
import { eventually } from "../../../kit/testing/testing.ts";
import { archiveOf, createWebService, startDeployer, type TestDeployer } from "../../testing/testing.ts";

let berth: TestDeployer;
beforeAll(async () => {
  berth = await startDeployer();
});
afterAll(() => berth?.stop());

const webService = () => createWebService(berth.port);

/** A deployment that no reconciler moves, as its service is not due. */
async function insertDeployment(serviceId: string, version: number, status = "building") {
  const id = newId("dep");
  await berth.pool.query(
    `insert into deployments (id, service_id, version, status, config, source, build_id, build_started_at)
     values ($1, $2, $3, $4, '{}', '{}', $5, now())`,
    [id, serviceId, version, status, `bld_${randomBytes(4).toString("hex")}`],
  );
  return id;
}

/** Collects a stream until it ends. */
function collect<T extends { event: { case?: string | undefined; value?: unknown } }>(
  stream: AsyncIterable<T>,
) {
  const seen: T[] = [];
  const ended = (async () => {
    for await (const message of stream) if (message.event.case) seen.push(message);
  })();
  ended.catch(() => {});
  const until = (count: number) => eventually(`${count} events came`, async () => seen.length >= count);
  return { seen, ended, until, kinds: () => seen.map(({ event }) => event.case) };
}

test("a build that begins again sends `restart`, and followers get its log from the beginning", async () => {
  const { id, path, deployments } = await webService();
  const deployment = await insertDeployment(id, 1);
  const write = (seq: number, text: string) =>
    berth.pool.query("insert into build_logs (deployment_id, seq, text) values ($1, $2, $3)", [
      deployment,
      seq,
      text,
    ]);
  await write(0, "first\n");
  const live = collect(deployments.followBuildLogs({ ...path, version: 1 }));
  await live.until(1);
  await write(1, "second\n");
  await live.until(2);
  await berth.pool.query("delete from build_logs where deployment_id = $1", [deployment]);
  await write(0, "anew\n");
  await write(1, "built\n");
  await live.until(5);
  const resumed = collect(
    deployments.followBuildLogs({ ...path, version: 1, lastEventId: live.seen[1]!.id }),
  );
  await resumed.until(3);
  await berth.pool.query("update deployments set status = 'built', built_at = now() where id = $1", [
    deployment,
  ]);
  await Promise.all([live.ended, resumed.ended]);
  const after = ["restart", "anew\n", "built\n", "built"];
  const contents = (seen: typeof live.seen) =>
    seen.map(({ event }) =>
      event.case === "piece" ? event.value.logs : event.case === "end" ? event.value.outcome : event.case,
    );
  expect(contents(live.seen)).toEqual(["first\n", "second\n", ...after]);
  expect(contents(resumed.seen)).toEqual(after);
  expect(
    await refused(
      deployments
        .followBuildLogs({ ...path, version: 1, lastEventId: "x" })
        [Symbol.asyncIterator]()
        .next(),
    ),
  ).toBe("400 malformed_request");
});

test("output that was dropped is reported as truncated", async () => {
  const { id, path, deployments } = await webService();
  const deployment = await insertDeployment(id, 1);
  await berth.pool.query("insert into build_logs (deployment_id, seq, text) values ($1, 7, 'late')", [
    deployment,
  ]);
  await berth.pool.query("update deployments set status = 'failed', finished_at = now() where id = $1", [
    deployment,
  ]);
  const log = collect(deployments.followBuildLogs({ ...path, version: 1 }));
  await log.ended;
  expect(log.seen.map(({ event }) => event.value)).toMatchObject([
    { logs: "late", truncated: true },
    { outcome: "failed" },
  ]);
});

test("a release that a newer one replaces before it was healthy ends its stream as superseded", async () => {
  const { id, path, deployments } = await webService();
  const deployment = await insertDeployment(id, 1, "applied");
  const states = collect(deployments.followDeployment({ ...path, version: 1 }));
  await states.until(1);
  const warning = JSON.stringify([{ stage: "rollout", code: "slow", message: "slow", at: new Date() }]);
  await berth.pool.query("update deployments set warnings = $2 where id = $1", [deployment, warning]);
  await states.until(2);
  await berth.pool.query("update deployments set leftover = true, artifact = 'a' where id = $1", [
    deployment,
  ]);
  await insertDeployment(id, 2, "applied");
  await berth.pool.query("update services set live_version = 2 where id = $1", [id]);
  await states.ended;
  expect(states.kinds()).toEqual(["state", "progress", "end"]);
  expect(states.seen[1]!.event.value).toMatchObject({ status: "applied", warnings: [{ code: "slow" }] });
  expect(states.seen[2]!.event.value).toMatchObject({ outcome: "superseded" });
});

test("a stream of an older deployment sends only the last state, as earlier ones are not kept", async () => {
  const { id, path, deployments } = await webService();
  for (let version = 1; version <= 5; version++) await insertDeployment(id, version, "failed");
  const kept = await berth.pool.query(
    `select distinct d.version from deployment_states s join deployments d on d.id = s.deployment_id
     where d.service_id = $1 order by 1`,
    [id],
  );
  expect(kept.rows.map(({ version }) => version)).toEqual([3, 4, 5]);
  const states = collect(deployments.followDeployment({ ...path, version: 1 }));
  await states.ended;
  expect(states.seen.map(({ id, event }) => [id, event.case])).toEqual([
    ["0", "state"],
    ["", "end"],
  ]);
});

test("streams of a service that is deleted end with 404", async () => {
  const { catalog, path, deployments } = await webService();
  const { version } = await deployments.deploy({ ...path, image: "shop/web:1" });
  const states = collect(deployments.followDeployment({ ...path, version }));
  await states.ended;
  expect(states.kinds().at(-1)).toBe("end");
  const logs = collect(deployments.followLogs(path));
  await catalog.deleteService(path);
  expect(await refused(logs.ended)).toBe("404 not_found");
});

test("an app's lines reach a follower that began before it was deployed", async () => {
  const { path, deployments, deployArchive } = await webService();
  const logs = collect(deployments.followLogs({ ...path, limit: 1 }));
  const script = `for (let n = 1; n <= 50; n++) console.log("line " + n);
    require("node:http").createServer((_, res) => res.end()).listen(process.env.PORT);`;
  await deployArchive(path, await archiveOf({ "package.json": "{}", "server.js": script }));
  await logs.until(50);
  const messages = logs.seen.map(({ event }) => event.case === "line" && event.value.message);
  expect(messages.slice(0, 50)).toEqual(Array.from({ length: 50 }, (_, n) => `line ${n + 1}`));
});

test("each process is notified of changes, also after its connection to the database broke", async () => {
  const { id: serviceId } = await webService();
  const log = createLog("test", "silent");
  // Without notifications it would wait for longer than a test may.
  const options = { url: berth.database.url("deployer"), name: "deployer-follow", log, fallbackMs: 600_000 };
  const [one, other] = [await startChangeFeed(options), await startChangeFeed(options)];
  const never = new AbortController().signal;
  const ring = (key: string) => {
    const signals = [one.signal(key), other.signal(key)];
    return async () => {
      await Promise.all(signals.map((signal) => signal.next(never)));
      for (const signal of signals) signal.close();
    };
  };
  const accepted = ring(serviceId);
  const deployment = await insertDeployment(serviceId, 1);
  await accepted();
  const grew = ring(deployment);
  await berth.pool.query("insert into build_logs (deployment_id, seq, text) values ($1, 0, 'x')", [
    deployment,
  ]);
  await grew();

  const back = ring(serviceId);
  const backends = `from pg_stat_activity where application_name = 'deployer-follow' and datname = current_database()`;
  await berth.pool.query(`select pg_terminate_backend(pid) ${backends}`);
  await back();
  const moved = ring(serviceId);
  await berth.pool.query("update deployments set status = 'built' where id = $1", [deployment]);
  await moved();
  await Promise.all([one.stop(), other.stop()]);
});
