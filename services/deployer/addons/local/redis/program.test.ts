import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { refused } from "../../../../kit/testing/refusal.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { type AddonPlatform, program, startAddonPlatform, withRedis, works } from "../../testing.ts";

let berth: AddonPlatform;

beforeAll(async () => {
  berth = await startAddonPlatform();
});
afterEach(() => berth.end("SIGTERM"));
afterAll(() => berth?.stop());

test("a redis addon where no server is on the PATH fails, says so, and can be deleted", async () => {
  await berth.run({ PATH: "/nonexistent", PROGRAMS_DIR: "" });
  const { path, id, untilService, catalog, deployments } = await berth.addon("redis");
  const { statusMessage } = await untilService(path, "failed");
  expect(statusMessage).toMatch(/no redis server.*redis-server nor valkey-server/);
  expect((await berth.keysOf(id)).ready).toBe(false);
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
  await berth.run({ PATH: "/nonexistent", PROGRAMS_DIR: await programsFolder() });
  const { path, untilService } = await berth.addon("redis");
  const { statusMessage } = await untilService(path, "failed");
  expect(statusMessage).toMatch(
    /none could be fetched \(pip: .*apt-get: not installed\)\. Install one of them/,
  );
});

withRedis("a redis server is fetched when the first addon asks for it", async () => {
  const folder = await programsFolder();
  const tools = await fakeDebian(program!);
  await berth.run({ PATH: tools, PROGRAMS_DIR: folder });
  const { path, id, untilService, service } = await berth.addon("redis");
  await eventually("its status shows it", async () =>
    /is being fetched/.test((await service(path)).statusMessage ?? ""),
  );
  await writeFile(join(tools, "gate"), "");
  await untilService(path, "running");
  expect(await works(await berth.keysOf(id))).toBe(true);
  expect(await readdir(folder)).toContain("redis-server");
});

withRedis("a redis addon that failed for want of a server is made once there is one", async () => {
  await berth.run({ PATH: "/nonexistent", PROGRAMS_DIR: "" });
  const { path, id, untilService } = await berth.addon("redis");
  await untilService(path, "failed");
  await berth.end("SIGTERM");
  await berth.run();
  expect((await untilService(path, "running")).statusMessage).toBeUndefined();
  expect(await works(await berth.keysOf(id))).toBe(true);
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
