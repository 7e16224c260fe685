import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { sendCommands } from "../../services/deployer/addons/redis-client.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { wallsHere } from "../../services/kit/testing/walls.ts";
import { deployArchive, open, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { startWorld, type World } from "../support/world.ts";

const program = inject("redisProgram");

const pack = (files: Record<string, string>) =>
  archiveOf(Object.entries(files).map(([name, content]) => ({ name, content })));

/** Tells what it can see and do, as hostile code would look for it. */
const SPY = `
const fs = require("node:fs");
const { HIDDEN, HOUSE } = JSON.parse(fs.readFileSync("targets.json", "utf8"));
const list = (path) => { try { return fs.readdirSync(path); } catch (error) { return error.code; } };
const write = (path) => { try { fs.writeFileSync(path, "x"); return "written"; } catch (error) { return error.code; } };
const pids = fs.readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name));
const commands = pids.map((pid) => fs.readFileSync("/proc/" + pid + "/cmdline", "utf8"));
module.exports = () => ({
  hidden: list(HIDDEN),
  data: list(HOUSE),
  home: list(process.env.SPIED_HOME ?? "/nowhere"),
  others: list(process.cwd() + "/../..").length,
  strangers: commands.filter((one) => /nats-server|postgres|vitest/.test(one)),
  tmp: list("/tmp").filter((name) => name === "left-by-another"),
  etc: write("/etc/berth-was-here"),
  own: write("mine"),
});`;

describe.skipIf(!wallsHere)("one machine with walls", () => {
  let world: World;
  let outside: string;
  beforeAll(async () => {
    world = await startWorld({ APP_WALLS: "on" }, async (service, env) => {
      if (service !== "deployer") return env;
      outside = join(env.DATA_DIR!, "..", "secrets");
      await mkdir(outside, { recursive: true });
      await writeFile(join(outside, "secrets.json"), "{}");
      const link = `${outside}-link`;
      await symlink(outside, link);
      return { ...env, HIDDEN_PATHS: JSON.stringify([link]) };
    });
  });
  afterAll(() => world?.stop());

  test("neither an app nor its build sees Berth's data, other apps or processes, and both still work", async () => {
    const { E, S } = await world.environment();
    const spies = ["one", "two"];
    for (const name of spies) {
      await world.must("POST", `${E}/services`, { name, type: "web" });
      const variable = { name: "SPIED_HOME", value: homedir() };
      await world.must("POST", `${S(name)}/variables`, variable);
      const archive = await pack({
        "package.json": JSON.stringify({
          scripts: {
            build: `node -e "fs.writeFileSync('built.json', JSON.stringify(require('./spy.js')()))"`,
            start: "node server.js",
          },
        }),
        "spy.js": SPY,
        "targets.json": JSON.stringify({ HIDDEN: outside, HOUSE: join(world.dir, "deployer") }),
        "server.js": `
          const { writeFileSync, readFileSync } = require("node:fs");
          const seen = require("./spy.js")();
          writeFileSync("/tmp/left-by-another", "x");
          const built = JSON.parse(readFileSync("built.json", "utf8"));
          require("node:http")
            .createServer((_, response) => response.end(JSON.stringify({ seen, built })))
            .listen(process.env.PORT);`,
      });
      await deployArchive(world, S(name), archive);
      expect(await settled(world, S(name), 1)).toMatchObject({ errors: [], healthyAt: expect.any(String) });
    }
    for (const name of spies) {
      const { url } = await world.must<{ url: string }>("GET", S(name));
      const { seen, built } = JSON.parse((await open(url)).body);
      const walled = { hidden: [], strangers: [], tmp: [], etc: "EROFS", own: "written" };
      expect(seen).toMatchObject({ ...walled, data: ["artifacts", "runtime"], home: [], others: 1 });
      expect(built).toMatchObject({ ...walled, data: ["artifacts"], others: 1 });
    }
    expect(await readFile(join(outside, "secrets.json"), "utf8")).toBe("{}");
  });

  test.skipIf(!program)("nor does a redis addon, which apps may tell where to write", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "cache", type: "redis" });
    const connection = { service: "cache", key: "URL" };
    await world.must("POST", `${E}/variables`, { name: "CACHE_URL", connection });
    const url = await eventually("it has an address", async () => {
      const found = await world.call<{ value: string }>("POST", `${E}/variables/CACHE_URL/reveal`);
      return found.status === 200 && new URL(found.body.value);
    });
    const [port, login] = [Number(url.port), ["AUTH", url.password]];
    const write = (folder: string) =>
      sendCommands(port, [login, ["CONFIG", "SET", "dir", folder], ["SAVE"]]).catch(() => {});
    for (const folder of [outside, join(world.dir, "deployer"), homedir(), "/tmp"]) await write(folder);
    expect(await readdir(outside)).toEqual(["secrets.json"]);
    for (const folder of [join(world.dir, "deployer"), homedir(), "/tmp"])
      expect([folder, existsSync(join(folder, "dump.rdb"))]).toEqual([folder, false]);
    await sendCommands(port, [login, ["SET", "key", "kept"]]);
    const backup = await world.call("POST", `${S("cache")}/backups`);
    expect(backup.status).toBe(202);
  });

  test("a run has the same walls, and says how it ended", async () => {
    const { E, S } = await world.environment();
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    await deployArchive(
      world,
      S("web"),
      await pack({
        "package.json": '{"scripts":{"start":"node server.js"}}',
        "server.js": `require("node:http").createServer((_, response) => response.end()).listen(process.env.PORT)`,
      }),
    );
    await settled(world, S("web"), 1);
    const run = await world.must<{ id: string }>("POST", `${S("web")}/runs`, {
      command: `ls -A ${outside}; echo listed; exit 3`,
    });
    await expect
      .poll(async () => world.must("GET", `${S("web")}/runs/${run.id}`), { timeout: 60_000 })
      .toMatchObject({ status: "failed", exitCode: 3 });
    const { logs } = await world.must<{ logs: string }>("GET", `${S("web")}/runs/${run.id}/logs`);
    expect(logs.trim()).toBe("listed");
  });
});

/** A python3 in the home folder, as version managers install it: behind a script, or a link. */
const PYTHONS = {
  "a script of a version manager": { found: ".manager/shims", real: ".manager/versions/3/bin" },
  "a link": { found: ".local/bin", real: "" },
};

describe.skipIf(!wallsHere)("one machine with walls, whose Python lies in the home folder", () => {
  test.each(Object.entries(PYTHONS))("a Python app starts: %s", async (_, { found, real }) => {
    const home = await mkdtemp(join(tmpdir(), "berth-home-"));
    const system = execFileSync("python3", ["-c", "import sys; print(sys._base_executable)"])
      .toString()
      .trim();
    const shim = join(home, found, "python3");
    await mkdir(dirname(shim), { recursive: true });
    if (real === "") await symlink(system, shim);
    else {
      const program = join(home, real, "python3");
      await mkdir(dirname(program), { recursive: true });
      await symlink(system, program);
      await writeFile(shim, `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 });
    }
    vi.stubEnv("HOME", home);
    vi.stubEnv("PATH", `${dirname(shim)}:${process.env.PATH}`);
    const world = await startWorld({ APP_WALLS: "on" });
    try {
      const { E, S } = await world.environment();
      await world.must("POST", `${E}/services`, { name: "web", type: "web" });
      const archive = await pack({
        "requirements.txt": "",
        "app.py": `
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"python")
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`,
      });
      await deployArchive(world, S("web"), archive);
      expect(await settled(world, S("web"), 1)).toMatchObject({ errors: [], healthyAt: expect.any(String) });
    } finally {
      await world.stop();
      vi.unstubAllEnvs();
      await rm(home, { recursive: true });
    }
  });
});
