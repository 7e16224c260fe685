import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, inject, onTestFinished, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf, startedOf } from "../shared/process-tree.ts";
import { actAs, startTestPlatform, type TestPlatform } from "../testing/testing.ts";
import { sendCommands } from "./local/redis-client.ts";

const program = inject("redisProgram");
const withRedis = test.skipIf(!program);

let platform: TestPlatform;
let child: ChildProcess | undefined;
let output = "";

beforeAll(async () => {
  platform = await startTestPlatform();
});
afterEach(() => end("SIGTERM"));
afterAll(async () => {
  await end("SIGKILL");
  await platform?.stop();
});

/** Starts the deployer as an operator does, and waits until it is ready. */
async function run(more: Record<string, string> = {}): Promise<void> {
  child = spawn(process.execPath, [join(import.meta.dirname, "../main.ts")], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...platform.env, LOG_LEVEL: "debug", ...more },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (part) => (output += part));
  await eventually("the deployer is ready", () =>
    fetch(`http://127.0.0.1:${platform.port}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    ),
  );
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const ending = child;
  child = undefined;
  if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
  const exited = once(ending, "exit");
  ending.kill(signal);
  await exited;
}

async function addon(type: string) {
  const acting = actAs(platform.port, newId("acc"));
  const environment = await acting.environment();
  const { id } = await acting.catalog.createService({ ...environment, name: "store", type });
  return { ...acting, environment, id, path: environment.at("store") };
}

/** What an addon publishes, as the variables service asks for it. */
async function keysOf(serviceId: string) {
  const variables = clientAs(InternalService, platform.port, { kind: "service", id: "variables" });
  const { ready, keys, revision } = await variables.getAddonKeys({ serviceId });
  return { ready, revision, ...Object.fromEntries(keys.map(({ key, value }) => [key, value])) } as {
    ready: boolean;
    revision: bigint;
    HOST: string;
    PORT: string;
    PASSWORD: string;
    URL: string;
  };
}

// A busy machine may take longer to answer than the deployer waits.
const PATIENCE_MS = 60_000;
const command = (keys: { PORT: string; PASSWORD: string }, ...parts: string[][]) =>
  sendCommands(Number(keys.PORT), [["AUTH", keys.PASSWORD], ...parts], PATIENCE_MS);
const works = (keys: { PORT: string; PASSWORD: string }) =>
  command(keys, ["PING"]).then(
    () => true,
    () => false,
  );

async function recordOf(serviceId: string): Promise<{ pid: number; started: string }> {
  return JSON.parse(await readFile(join(platform.dataDir, "redis", serviceId, "state.json"), "utf8"));
}

withRedis(
  "a redis addon is a server of its own, reached with the keys it publishes and nothing less",
  async () => {
    await run();
    const { path, id, untilService, catalog } = await addon("redis");
    await untilService(path, "running");
    const keys = await keysOf(id);
    expect(keys).toMatchObject({ ready: true, HOST: "127.0.0.1" });
    expect(keys.URL).toBe(`redis://:${keys.PASSWORD}@127.0.0.1:${keys.PORT}`);
    await command(keys, ["SET", "greeting", "hello"]);
    await expect(sendCommands(Number(keys.PORT), [["SET", "a", "b"]])).rejects.toMatchObject({
      code: "NOAUTH",
    });
    await expect(sendCommands(Number(keys.PORT), [["AUTH", "guess"]])).rejects.toMatchObject({
      code: "WRONGPASS",
    });

    const { pid } = await recordOf(id);
    expect(await readFile(`/proc/${pid}/cmdline`, "latin1")).not.toContain(keys.PASSWORD);
    expect(output).toContain("addon is ready");
    expect(output).not.toContain(keys.PASSWORD);
    const folder = join(platform.dataDir, "redis", id);
    expect((await stat(join(folder, "redis.conf"))).mode & 0o777).toBe(0o600);
    const others = (await readdir(folder)).filter((name) => name !== "redis.conf" && name !== "data");
    for (const name of others)
      expect(await readFile(join(folder, name), "utf8")).not.toContain(keys.PASSWORD);

    expect(await refused(catalog.deleteService(path))).toBe("409 impact_confirmation_required");
    await catalog.deleteService({ ...path, confirmImpact: true });
    await eventually("it is gone with its data", async () => {
      const left = await readdir(join(platform.dataDir, "redis"));
      return !left.includes(id) && startedOf(pid) === undefined;
    });
    await expect(keysOf(id)).rejects.toThrow(/not_found/);
  },
);

withRedis(
  "a redis server goes on when the deployer is killed, ends with it, and comes back at its port with its data",
  async () => {
    await run();
    const { path, id, untilService } = await addon("redis");
    await untilService(path, "running");
    const keys = await keysOf(id);
    await command(keys, ["SET", "kept", "yes"]);
    const before = await recordOf(id);
    await end("SIGKILL");
    expect(await works(keys)).toBe(true);
    await run();
    await untilService(path, "running");
    expect((await recordOf(id)).pid).toBe(before.pid);
    await end("SIGTERM");
    expect(startedOf(before.pid)).toBeUndefined();
    await run();
    await eventually("it answers again", () => works(keys));
    expect((await keysOf(id)).PORT).toBe(keys.PORT);
    // RENAME is refused for a key that is not there.
    await command(keys, ["RENAME", "kept", "still"]);
  },
);

withRedis("a redis server that ends is started again, and one that died with the deployer too", async () => {
  await run();
  const { path, id, untilService } = await addon("redis");
  await untilService(path, "running");
  const keys = await keysOf(id);
  const first = await recordOf(id);
  process.kill(first.pid, "SIGKILL");
  const second = await eventually("another one answers", async () => {
    const now = await recordOf(id);
    return now.pid !== first.pid && (await works(keys)) && now;
  });
  await end("SIGKILL");
  process.kill(second.pid, "SIGKILL");
  await run();
  await eventually("it answers again", () => works(keys));
  expect((await keysOf(id)).revision).toBe(keys.revision);
});

withRedis(
  "a redis addon gets another port when its own was taken meanwhile, and publishes that",
  async () => {
    await run();
    const { path, id, untilService } = await addon("redis");
    await untilService(path, "running");
    const keys = await keysOf(id);
    await end("SIGTERM");
    const { createServer } = await import("node:net");
    const thief = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => thief.listen(Number(keys.PORT), "127.0.0.1", done));
    await run();
    const now = await eventually("other keys are published", async () => {
      const found = await keysOf(id);
      return found.revision > keys.revision && found;
    });
    expect(now.PORT).not.toBe(keys.PORT);
    expect(await works(now)).toBe(true);
    thief.close();
  },
);

test("a redis addon where no server is on the PATH fails, says so, and can be deleted", async () => {
  await run({ PATH: "/nonexistent", PROGRAMS_DIR: "" });
  const { path, id, untilService, catalog, deployments } = await addon("redis");
  const { statusMessage } = await untilService(path, "failed");
  expect(statusMessage).toMatch(/no redis server.*redis-server nor valkey-server/);
  expect((await keysOf(id)).ready).toBe(false);
  const calls = [
    deployments.deploy({ ...path, image: "a" }),
    deployments.createUpload(path),
    deployments.deployFromArchive({ ...path, archiveRef: "arc_a" }),
  ];
  const said = new Set(await Promise.all(calls.map(refused)));
  expect(said).toEqual(new Set(["422 validation_failed not_deployable"]));
  expect(await refused(catalog.rotateCredentials(path))).toBe("409 service_not_ready");
  await catalog.deleteService(path);
});

test("a redis addon whose server cannot be fetched says what to install, and starting does not wait", async () => {
  await run({ PATH: "/nonexistent", PROGRAMS_DIR: await programsFolder() });
  const { path, untilService } = await addon("redis");
  const { statusMessage } = await untilService(path, "failed");
  expect(statusMessage).toMatch(
    /none could be fetched \(pip: .*apt-get: not installed\)\. Install one of them/,
  );
});

withRedis("a redis server is fetched when the first addon asks for it", async () => {
  const folder = await programsFolder();
  const tools = await fakeDebian(program!);
  await run({ PATH: tools, PROGRAMS_DIR: folder });
  const { path, id, untilService, service } = await addon("redis");
  await eventually("its status tells", async () =>
    /is being fetched/.test((await service(path)).statusMessage ?? ""),
  );
  await writeFile(join(tools, "gate"), "");
  await untilService(path, "running");
  expect(await works(await keysOf(id))).toBe(true);
  expect(await readdir(folder)).toContain("redis-server");
});

withRedis("a redis addon that failed for want of a server is made once there is one", async () => {
  await run({ PATH: "/nonexistent", PROGRAMS_DIR: "" });
  const { path, id, untilService } = await addon("redis");
  await untilService(path, "failed");
  await end("SIGTERM");
  await run();
  expect((await untilService(path, "running")).statusMessage).toBeUndefined();
  expect(await works(await keysOf(id))).toBe(true);
});

withRedis(
  "a deployer killed while it makes a redis addon ends with one server that its keys open",
  async () => {
    for (const pause of [5, 40, 100, 200]) {
      await run();
      const { path, id, untilService, catalog } = await addon("redis");
      await delay(pause); // the moment of the kill
      await end("SIGKILL");
      await run();
      await untilService(path, "running");
      await eventually("it answers", async () => works(await keysOf(id)));
      const folder = join(platform.dataDir, "redis", id);
      expect(findProcessesOf(folder).map((one) => one.pid)).toEqual([(await recordOf(id)).pid]);
      await catalog.deleteService({ ...path, confirmImpact: true });
      await eventually("nothing of it runs", async () => findProcessesOf(folder).length === 0);
      await end("SIGTERM");
    }
  },
);

withRedis("rotating a redis addon ends the old password and publishes a new one", async () => {
  await run();
  const { path, id, untilService, catalog } = await addon("redis");
  await untilService(path, "running");
  const keys = await keysOf(id);
  await command(keys, ["SET", "kept", "yes"]);
  expect((await catalog.rotateCredentials(path)).name).toBe("store");
  const now = await rotated(id, keys);
  expect([now.PORT, await works(now), await works(keys)]).toEqual([keys.PORT, true, false]);
  await command(now, ["RENAME", "kept", "still"]);
  await end("SIGTERM");
  await run();
  await eventually("the new password counts after a restart", () => works(now));
});

test("rotating a postgres addon ends the old password, publishes a new one and keeps the data", async () => {
  await run();
  const { path, id, untilService, catalog, service } = await addon("postgres");
  await untilService(path, "running");
  const keys = await keysOf(id);
  await sql(keys.URL, "create table kept as select 7 as n");
  expect((await service(path)).credentialsRotatedAt).toBeUndefined();
  await catalog.rotateCredentials(path);
  const now = await rotated(id, keys);
  expect((await service(path)).credentialsRotatedAt).toBeDefined();
  expect((await sql(now.URL, "select n from kept")).rows).toEqual([{ n: 7 }]);
  await expect(sql(keys.URL, "select 1")).rejects.toThrow(/password authentication failed/);
});

test("a rotation that is killed anywhere ends with keys that work", async () => {
  await run();
  const types = program ? ["postgres", "redis"] : ["postgres"];
  for (const type of types) {
    const { path, id, untilService, catalog } = await addon(type);
    await untilService(path, "running");
    for (const pause of [0, 2, 10, 30]) {
      const keys = await keysOf(id);
      await catalog.rotateCredentials(path);
      await delay(pause); // the moment of the kill
      await end("SIGKILL");
      await run();
      const now = await rotated(id, keys);
      if (type === "redis") expect(await works(now)).toBe(true);
      else expect((await sql(now.URL, "select 1 as n")).rowCount).toBe(1);
    }
  }
});

test("only an addon that is ready has credentials to rotate, and only an editor may", async () => {
  await run();
  const { environment, catalog, accountId, path } = await addon("postgres");
  await catalog.createService({ ...environment, name: "web", type: "web" });
  await catalog.createService({ ...environment, name: "later", type: "postgres", staged: true });
  expect(await refused(catalog.rotateCredentials(environment.at("web")))).toBe(
    "422 validation_failed not_addon",
  );
  expect(await refused(catalog.rotateCredentials(environment.at("none")))).toBe("404 not_found");
  expect(await refused(catalog.rotateCredentials(environment.at("later")))).toBe("409 service_not_ready");
  const reader = actAs(platform.port, accountId, "reader").catalog;
  expect(await refused(reader.rotateCredentials(path))).toBe("403 forbidden");
});

async function programsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "berth-programs-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** A PATH with a Debian's apt-get, which waits for the file `gate`, and dpkg-deb; the one package is a redis server. */
async function fakeDebian(server: string): Promise<string> {
  const folder = await programsFolder();
  const tool = (name: string, ...lines: string[]) =>
    writeFile(join(folder, name), ["#!/bin/sh", "PATH=/usr/bin:/bin", ...lines, ""].join("\n"), {
      mode: 0o755,
    });
  await tool(
    "apt-get",
    'case "$*" in',
    "  *valkey*) exit 100 ;;",
    '  *simulate*) echo "Inst redis-server (7)" ;;',
    `  *download*) while [ ! -e ${folder}/gate ]; do sleep 0.05; done; touch redis.deb ;;`,
    "esac",
  );
  await tool("dpkg-deb", 'mkdir -p "$3/usr/bin"', `cp -L ${server} "$3/usr/bin/redis-server"`);
  return folder;
}

function rotated(id: string, before: { revision: bigint; PASSWORD: string }) {
  return eventually("a new password is published", async () => {
    const now = await keysOf(id);
    return now.revision > before.revision && now.PASSWORD !== before.PASSWORD && now;
  });
}

async function sql(url: string, text: string) {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return await client.query(text);
  } finally {
    await client.end();
  }
}
