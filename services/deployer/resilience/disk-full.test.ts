import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { canMount, emptyDisk, fillDisk, onSmallDisk } from "../../kit/testing/small-disk.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { ServicePath } from "../projects/services-sql.ts";
import { actAs, archiveOf, startTestPlatform, type TestPlatform, upload, visit } from "../testing/testing.ts";
import {
  collectEvents,
  type DeployerProcess,
  deployerProcess,
  everyDeploymentEnds,
  runningFolders,
} from "../testing/testing-process.ts";

const DISK_BYTES = 24 * 1024 ** 2;
const mounts = canMount("Tests of the deployer with a full disk are");
const withSmallDisk = test.skipIf(!mounts);

let platform: TestPlatform;
let deployer: DeployerProcess;
let events: ReturnType<typeof collectEvents>;

beforeAll(async () => {
  platform = await startTestPlatform();
  deployer = deployerProcess(platform);
  events = collectEvents(platform);
  if (mounts) await deployer.run({}, onSmallDisk(platform.dataDir, DISK_BYTES));
});
afterEach(() => deployer.runs() && empty());
afterAll(async () => {
  await deployer?.end("SIGTERM");
  await events?.stop();
  await platform?.stop();
});

/** A path on the small disk, which only the deployer and its apps have mounted. */
const onDisk = (...parts: string[]) => join(`/proc/${deployer.pid()}/root`, platform.dataDir, ...parts);

const fill = (left = 0) => fillDisk(onDisk(), left);
const empty = () => emptyDisk(onDisk());

const server = (edition: string) =>
  `require('node:http').createServer((q, r) => {
    console.log('asked for ' + q.url);
    if (q.url === '/die') process.exit(3);
    r.end('${edition} ' + process.env.GREETING + ' ' + process.pid);
  }).listen(process.env.PORT)`;
const app = (edition: string, more: Record<string, string> = {}, build = "true") =>
  archiveOf({
    "package.json": JSON.stringify({ name: "app", scripts: { build, start: "node server.js" } }),
    "server.js": server(edition),
    ...more,
  });
/** Does not get smaller by compression. */
const noise = (bytes: number) =>
  Buffer.from(Uint8Array.from({ length: bytes }, () => Math.random() * 256)).toString("base64");

async function webService() {
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const web = async (name: string) => {
    const config = { minReadySeconds: 0 };
    const { id } = await acting.catalog.createService({ ...environment, name, type: "web", config });
    return { id, path: environment.at(name) };
  };
  const answers = (path: ServicePath, beginning: string) =>
    eventually(`${path.service} answers ${beginning}`, async () => {
      const { url, status } = await acting.service(path);
      if (url === undefined || status !== "running") return false;
      const { text } = await visit(url);
      return text.startsWith(beginning) && { url, text };
    });
  return { ...acting, environment, web, answers };
}

const objects = async () => (await readdir(onDisk("store", "objects"))).length;

withSmallDisk(
  "an upload that the disk has no room for is refused with a sentence, and leaves nothing",
  async () => {
    const { web, deployments, deployArchive, answers } = await webService();
    const { path } = await web("web");
    const before = await objects();
    const archive = await app("one", { noise: noise(3 * 1024 ** 2) });
    fill(1024 ** 2);
    const target = await deployments.createUpload(path);
    const headers = { "content-type": target.contentType };
    const put = () => fetch(target.uploadUrl, { method: "PUT", headers, body: new Uint8Array(archive) });
    const answer = await put();
    expect(answer.status).toBe(503);
    const { error } = (await answer.json()) as { error: { code: string; message: string } };
    expect(error).toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/could not be stored/),
    });
    expect([await objects(), await readdir(onDisk("store", "incoming"))]).toEqual([before, []]);
    empty();
    expect((await put()).status).toBe(200);
    await deployments.deployFromArchive({ ...path, archiveRef: target.archiveRef });
    await answers(path, "one");
    await deployArchive(path, await app("two"));
    await answers(path, "two");
  },
);

const fillers: [string, () => Promise<Buffer>][] = [
  ["the source is unpacked", () => app("one", { zeros: "0".repeat(8 * 1024 ** 2) })],
  ["a command of it writes", () => app("one", {}, "head -c 16000000 /dev/zero > zeros")],
  [
    "a program of it writes",
    () =>
      app(
        "one",
        {},
        `node -e \\"require('fs').writeFileSync('zeros', Buffer.alloc(16000000))\\"`.replaceAll("\\", ""),
      ),
  ],
];
withSmallDisk.each(fillers)(
  "a build that fills the disk when %s fails with disk_full, and leaves nothing",
  async (_, archive) => {
    const { web, deployments, until, deployArchive, answers } = await webService();
    const { id, path } = await web("web");
    const before = await readdir(onDisk("artifacts"));
    fill(4 * 1024 ** 2);
    const ref = await upload(deployments.createUpload(path), await archive());
    await deployments.deployFromArchive({ ...path, archiveRef: ref });
    const { errors, buildId } = await until(path, 1, "failed");
    expect(errors).toMatchObject([{ code: "disk_full" }]);
    const { logs } = await deployments.getBuildLogs({ ...path, version: 1 });
    expect(logs).toMatch(/no room left on the disk/);
    expect(await readdir(onDisk("artifacts"))).toEqual(before);
    expect(runningFolders(platform).filter((folder) => folder.includes(buildId!))).toEqual([]);
    empty();
    await deployArchive(path, await app("two"));
    await answers(path, "two");
    expect(await everyDeploymentEnds(platform, events.received, id)).toEqual(["failed", "applied"]);
  },
);

withSmallDisk(
  "while the disk is full apps run, restart and roll over; afterwards everything is recorded again",
  async () => {
    const acting = await webService();
    const { web, deployArchive, answers, service, deployments, catalog, environment } = acting;
    const [calm, dying, rolled] = await Promise.all(["calm", "dying", "rolled"].map(web));
    for (const { path } of [calm!, dying!, rolled!]) await deployArchive(path, await app("one"));
    const first = await answers(calm!.path, "one");
    const doomed = await answers(dying!.path, "one");
    await answers(rolled!.path, "one");
    const withRedis = inject("redisProgram") !== undefined;
    if (withRedis) {
      await catalog.createService({ ...environment, name: "store", type: "redis" });
      await acting.untilService(environment.at("store"), "running");
    }
    fill();
    for (let n = 0; n < 200; n++) await visit(first.url, `/full-${n}`);
    await visit(doomed.url, "/die").catch(() => {});
    platform.variables.set(rolled!.id, [{ name: "GREETING", value: "bonjour" }]);
    await platform.variables.changed(acting.accountId, "service", rolled!.id);
    // Each of these takes something in that cannot be written down.
    await eventually(
      "the app that ended is missed",
      async () => (await service(dying!.path)).status !== "running",
    );
    if (withRedis) {
      const [folder] = runningFolders(platform).filter((one) => one.startsWith("redis/"));
      const state = JSON.parse(
        await readFile(onDisk("redis", folder!.split("/")[1]!, "state.json"), "utf8"),
      ) as { pid: number };
      process.kill(state.pid, "SIGKILL");
      await eventually(
        "the server that ended is missed",
        async () => (await service(environment.at("store"))).status !== "running",
      );
    }
    expect((await visit(first.url)).text).toBe(first.text);
    expect(deployer.runs()).toBe(true);
    empty();
    await answers(dying!.path, "one");
    await answers(rolled!.path, "one bonjour");
    if (withRedis) await acting.untilService(environment.at("store"), "running");
    expect((await visit(first.url, "/afterwards")).text).toBe(first.text);
    await eventually("the log continues", async () => {
      const { data } = await deployments.listLogs({ ...calm!.path, limit: 10 });
      return data.some(({ message }) => message === "asked for /afterwards");
    });
    for (const { id } of [calm!, dying!, rolled!]) {
      await eventually("one process of it runs, and is on record", async () => {
        const state = await readFile(onDisk("runtime", "services", id, "state.json"), "utf8");
        const folders = runningFolders(platform).filter((folder) => folder.includes(id));
        const { instances } = JSON.parse(state) as { instances: { name: string }[] };
        return folders.length === 1 && instances.length === 1 && folders[0]!.includes(instances[0]!.name);
      });
      expect(await everyDeploymentEnds(platform, events.received, id)).toEqual(["applied"]);
    }
  },
);

withSmallDisk("a service can be deleted while the disk is full, which makes room", async () => {
  const { web, deployArchive, answers, catalog } = await webService();
  const { id, path } = await web("web");
  await deployArchive(path, await app("one"));
  await answers(path, "one");
  fill();
  await catalog.deleteService({ ...path, confirmImpact: true });
  await eventually("it is gone", async () => {
    const { rowCount } = await platform.pool.query("select from services where id = $1", [id]);
    return rowCount === 0 && !runningFolders(platform).some((folder) => folder.includes(id));
  });
  empty();
});
