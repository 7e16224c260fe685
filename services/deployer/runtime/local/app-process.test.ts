import { globSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { startedOf } from "../../shared/process-tree.ts";
import { artifact, cleanUp, cleanups, logged, openLocal } from "./testing.ts";

afterEach(cleanUp);

describe("an app on this machine", () => {
  test("gets its variables, PORT and a bare minimum, and nothing of the platform's environment", async () => {
    process.env.DATABASE_PASSWORD = "of the platform";
    cleanups.push(async () => delete process.env.DATABASE_PASSWORD);
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const one = releaseOf(artifact, "console.log(JSON.stringify(process.env)); setInterval(() => {}, 1000)");
    await runtime.apply({ ...one, type: "worker" });
    const env = JSON.parse((await logged(runtime, one.serviceId))[0]!);
    // PWD, OLDPWD, SHLVL and _ are the shell's own.
    const names = Object.keys(env).filter((name) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(name));
    expect(names.sort()).toEqual(["ANSWER", "HOME", "LANG", "PATH", "PORT", "SCRIPT"]);
    expect(statSync(env.HOME).isDirectory()).toBe(true);
  });

  test("is stopped with all it started, also what left its process group", async () => {
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const script = `
      const { spawn } = require("node:child_process");
      for (const detached of [false, true]) {
        const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached, stdio: "ignore" });
        console.log(child.pid);
      }
      console.log(process.pid);
      setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const pids = (await logged(runtime, one.serviceId, 3)).map(Number);
    expect(pids.map((pid) => typeof startedOf(pid))).toEqual(["string", "string", "string"]);
    await runtime.remove(one.serviceId);
    expect(pids.map(startedOf)).toEqual([undefined, undefined, undefined]);
  });

  test("that ignores SIGTERM is killed after the grace period", async () => {
    const { runtime, close } = await openLocal({ times: { graceMs: 300 } });
    cleanups.push(close);
    const script = `process.on("SIGTERM", () => {}); console.log(process.pid); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const [pid] = await logged(runtime, one.serviceId);
    await runtime.remove(one.serviceId);
    expect(startedOf(Number(pid))).toBeUndefined();
  });

  test("that finishes its work on SIGTERM is given the time, and its last output is kept", async () => {
    const { runtime, close } = await openLocal();
    cleanups.push(close);
    const script = `process.on("SIGTERM", () => setTimeout(() => { process.stdout.write("done"); process.exit() }, 300));
      console.log("ready"); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    await logged(runtime, one.serviceId);
    await runtime.apply({ ...one, replicas: 0 });
    expect(await logged(runtime, one.serviceId, 2)).toEqual(["ready", "done"]);
  });

  test("that never answers is degraded after the rollout deadline, with the reason", async () => {
    const { runtime, close } = await openLocal({ times: { rolloutDeadlineMs: 500 } });
    cleanups.push(close);
    const one = releaseOf(artifact, "setInterval(() => {}, 1000)", { healthCheckPath: "/up" });
    await runtime.apply(one);
    const status = await statusOf(runtime, one.serviceId, (now) => now.state !== "starting");
    expect(status).toMatchObject({ state: "degraded", reason: "rollout_deadline_exceeded" });
    expect(status.message).toMatch(/GET \/up on PORT \(\d+\) was not answered/);
  });

  test.each([undefined, "/up"])(
    "that stops answering (health check at %s) gets no requests and is degraded until it answers again",
    async (healthCheckPath) => {
      const { runtime, close, fetch } = await openLocal({ times: { probeMs: 50 } });
      cleanups.push(close);
      const script = `const server = require("node:http").createServer((q, r) => r.end(String(process.pid)));
        const turn = () => server.listening ? (server.close(), server.closeAllConnections()) : server.listen(process.env.PORT);
        process.on("SIGUSR2", turn); turn(); setInterval(() => {}, 1000);`;
      const one = releaseOf(artifact, script, { healthCheckPath });
      await runtime.apply(one);
      const { url } = await statusOf(runtime, one.serviceId, isRunning);
      const pid = (await fetch(url!, "/")).body;
      process.kill(Number(pid), "SIGUSR2");
      const silent = await statusOf(runtime, one.serviceId, (now) => !isRunning(now));
      expect(silent).toMatchObject({ state: "degraded", reason: "health_check_failed", restarts: 0 });
      expect(silent.message).toMatch(/^The app is running, but /);
      expect([silent.serving, silent.usage!.at(-1)!.replicas]).toEqual([undefined, 0]);
      expect((await fetch(url!, "/")).status).toBe(503);
      process.kill(Number(pid), "SIGUSR2");
      await statusOf(runtime, one.serviceId, isRunning);
      expect(await fetch(url!, "/")).toEqual({ status: 200, body: pid });
    },
  );

  test("that floods its output is kept to the newest part, on disk and in the log", async () => {
    const { runtime, close, folder } = await openLocal();
    cleanups.push(close);
    const script = `const line = "x".repeat(999) + "\\n"; let n = 0;
      const write = () => { for (let i = 0; i < 4000; i++) process.stdout.write(line); if (++n < 8) setTimeout(write, 50); else console.log("the end"); };
      write(); setInterval(() => {}, 1000);`;
    const one = releaseOf(artifact, script, { type: "worker" });
    await runtime.apply(one);
    const newest = async () =>
      (await runtime.logs({ serviceId: one.serviceId, environmentId: one.environmentId, limit: 1 })).lines[0]
        ?.message;
    while ((await newest()) !== "the end") await delay(20);
    const bytesOnDisk = () => {
      const files = globSync(join(folder, "**/{stdout,*.log}"));
      return files.reduce((sum, file) => sum + statSync(file).blocks * 512, 0);
    };
    while (bytesOnDisk() > 20 * 1024 ** 2) await delay(20);
  });
});
