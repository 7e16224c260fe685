import { once } from "node:events";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { createLog } from "../../../../kit/log.ts";
import { noWalls } from "../../../../kit/process/walls.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { wallsHere } from "../../../../kit/testing/walls.ts";
import { findProcessesOf, startedOf } from "../../../shared/process-tree.ts";
import { createRedisServers } from "./servers.ts";

const program = inject("redisProgram");

async function openServers(raise?: typeof wallsHere) {
  const folder = await mkdtemp(join(tmpdir(), "berth-redis-"));
  const log = createLog("deployer", "silent");
  const walls = (await raise?.([folder])) ?? noWalls;
  const servers = createRedisServers({ folder, log, path: () => process.env.PATH, walls });
  onTestFinished(async () => {
    await servers.stopAll();
    await rm(folder, { recursive: true });
  });
  await servers.start();
  return { folder, servers };
}

test.skipIf(!program)("what takes the port while a server starts does not get its password", async () => {
  const { folder, servers } = await openServers();
  const slow = join(folder, "slow");
  const script = `#!/bin/sh\nuntil [ -e ${folder}/go ]; do sleep 0.05; done\nexec '${program}' "$@"\n`;
  await writeFile(slow, script, { mode: 0o755 });
  const starting = servers.ensure("svc_a", slow, { password: "secret", size: "nano" });
  const port = await eventually("the server has a port", async () => {
    const config = await readFile(join(folder, "svc_a/redis.conf"), "utf8").catch(() => "");
    return Number(/^port (\d+)$/m.exec(config)?.[1] ?? "") || undefined;
  });
  let heard = "";
  const impostor = createServer((socket) => {
    socket.on("data", (data) => {
      heard += data;
      socket.write("+OK\r\n+PONG\r\n");
    });
  }).listen(port, "127.0.0.1");
  onTestFinished(() => void impostor.close());
  await once(impostor, "listening");
  await writeFile(join(folder, "go"), "");
  await expect(starting).rejects.toThrow("the redis server did not start");
  expect(heard).toBe("");
});

test.skipIf(!program)(
  "a server that does not react to SIGTERM is killed after the grace period",
  async () => {
    const { folder, servers } = await openServers();
    await servers.ensure("svc_a", program!, { password: "secret", size: "nano" });
    const { pid } = JSON.parse(await readFile(join(folder, "svc_a", "state.json"), "utf8"));
    process.kill(pid, "SIGSTOP");
    await servers.remove("svc_a");
    expect(startedOf(pid)).toBeUndefined();
  },
);

test.skipIf(!program || !wallsHere)(
  "behind walls, a server starts whose program is a link to elsewhere, and ends with all of it",
  async () => {
    const { folder, servers } = await openServers(wallsHere);
    const [elsewhere, onPath] = [join(folder, "elsewhere"), join(folder, "on-path")];
    for (const made of [elsewhere, onPath]) await mkdir(made);
    await copyFile(program!, join(elsewhere, "real"));
    await chmod(join(elsewhere, "real"), 0o755);
    await symlink(join(elsewhere, "real"), join(onPath, "redis-server"));
    const settings = { password: "secret", size: "nano" } as const;
    expect(await servers.ensure("svc_a", join(onPath, "redis-server"), settings)).toBeGreaterThan(0);
    await servers.remove("svc_a");
    expect(findProcessesOf(folder)).toEqual([]);
  },
);
