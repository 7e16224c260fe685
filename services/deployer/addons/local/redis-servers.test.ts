import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { createLog } from "../../../kit/log.ts";
import { startedOf } from "../../shared/process-tree.ts";
import { createRedisServers } from "./redis-servers.ts";

const program = inject("redisProgram");

test.skipIf(!program)(
  "a server that does not react to SIGTERM is killed after the grace period",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-redis-"));
    const log = createLog("deployer", "silent");
    const servers = createRedisServers({ folder, log, path: () => process.env.PATH });
    onTestFinished(async () => {
      await servers.stopAll();
      await rm(folder, { recursive: true });
    });
    await servers.start();
    await servers.ensure("svc_a", program!, { password: "secret", size: "nano" });
    const { pid } = JSON.parse(await readFile(join(folder, "svc_a", "state.json"), "utf8"));
    process.kill(pid, "SIGSTOP");
    await servers.remove("svc_a");
    expect(startedOf(pid)).toBeUndefined();
  },
);
