import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { chooseRole, limitWal, probeRole, programs, tryCollecting } from "./server-scripts.ts";

/** Runs the part of the start script with a server that does this with what it is given. */
async function settingsWith(server: string): Promise<string> {
  const script = `set -eu\ndata=/data\nsingle() { ${server}; }\n${tryCollecting}echo "[$collecting]"`;
  return (await promisify(execFile)("/bin/sh", ["-c", script])).stdout.trim();
}

test("a server collects statements where its image has the library, and starts without it otherwise", async () => {
  const preloads = "shared_preload_libraries=pg_stat_statements";
  // One whose image has lost the library still has the extension: that the library loads is what counts.
  expect(await settingsWith('read -r first; [ "$first" = "LOAD \'pg_stat_statements\'" ]')).toContain(
    preloads,
  );
  expect(await settingsWith("cat >/dev/null; echo 'could not access file' >&2; return 1")).toBe("[]");
});

/** Runs the part of the start script on a volume of which `df` says that it has so many KiB. */
async function walLimitsOn(kib: number): Promise<string> {
  const df = `df() { echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'; echo '/dev/sdb ${kib} 9 9 1% /data'; }`;
  const script = `set -eu\ndata=/data\n${df}\n${limitWal}echo "$limits"`;
  return (await promisify(execFile)("/bin/sh", ["-c", script])).stdout.trim();
}

test("a postgres server writes ahead at most a quarter of a small volume between checkpoints", async () => {
  expect(await walLimitsOn(1024 ** 2)).toBe("-c min_wal_size=32MB -c max_wal_size=256MB");
  expect(await walLimitsOn(64 * 1024)).toBe("-c min_wal_size=32MB -c max_wal_size=48MB");
  expect(await walLimitsOn(5 * 1024 ** 2)).toBe("");
});

test("a redis server that takes no writes because its volume is full still serves", async () => {
  const probeOf = (answer: string) => {
    const script = `command() { echo cli; }\ncli() { echo '${answer}'; }\n${programs.redis.probe}`;
    return promisify(execFile)("/bin/sh", ["-c", script]).then(
      () => true,
      () => false,
    );
  };
  expect(await probeOf("MISCONF Errors writing to the AOF file: No space left on device")).toBe(true);
  expect(await probeOf("LOADING Redis is loading the dataset in memory")).toBe(false);
  expect(await probeOf("Could not connect to Redis")).toBe(false);
});

describe("a server with a standby", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-role-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** Runs a script where a server answers this to PING and to ROLE. */
  async function run(script: string, answers: { ping?: string; role?: string }, env: object = {}) {
    const { ping = "", role = "" } = answers;
    const client = `#!/bin/sh\ncase "$*" in *ping) echo '${ping}' ;; *role) echo '${role}' ;; esac\n`;
    const program = join(folder, "redis-cli");
    await writeFile(program, client);
    await chmod(program, 0o755);
    const own = { ...process.env, PATH: `${folder}:${process.env.PATH}`, ...env };
    return promisify(execFile)("/bin/sh", ["-c", `set -eu\n${script}`], { env: own });
  }

  const MASTER = "master\n0";
  const STANDBY = "slave\ncache\n6379\nconnected\n0";

  test.each([
    ["svc-1-0", undefined, "", "master"],
    ["svc-1-1", undefined, "", "slave"],
    // Another one answers as the primary: it has missed that it was replaced.
    ["svc-1-0", undefined, MASTER, "slave"],
    ["svc-1-0", undefined, STANDBY, "master"],
    // What it was before its container ended counts for more than what its pod was created as.
    ["svc-1-1", "master", "", "master"],
    ["svc-1-0", "slave", "", "slave"],
    ["svc-1-1", "master", MASTER, "slave"],
  ])("of the pod %s, which was %s, starts where %j answers as a %s", async (POD, was, role, starts) => {
    if (was) await writeFile(join(folder, "role"), `${was}\n`);
    const script = `${chooseRole("cache", folder)}echo "$role"`;
    expect((await run(script, { role }, { POD, PRIMARY: "0" })).stdout.trim()).toBe(starts);
  });

  test.each([
    [MASTER, "PONG", true],
    [STANDBY, "PONG", true],
    [STANDBY.replace("connected", "connect"), "PONG", false],
    // The name of an addon says nothing of its state.
    ["slave\nconnected\n6379\nsync\n-1", "PONG", false],
    [MASTER, "LOADING", false],
    ["", "PONG", false],
    // Its volume is full.
    [MASTER, "MISCONF Errors writing to the AOF file", true],
  ])("that answers %j and %s is ready: %s", async (role, ping, ready) => {
    const probing = run(probeRole(folder, folder), { ping, role });
    expect(
      await probing.then(
        () => true,
        () => false,
      ),
    ).toBe(ready);
    const noted = await readFile(join(folder, "role"), "utf8").catch(() => "");
    expect(noted.trim()).toBe(/PONG|MISCONF/.test(ping) ? role.split("\n")[0] : "");
  });
});
