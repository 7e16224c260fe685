import { statfs } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { httpGet } from "../processes/http-get.ts";
import type { NatsServer } from "./nats.ts";

const CHECK_MS = 2_000;
/** How often in a row streams must be unhealthy: a single failure may be due to load. */
const FAILED_CHECKS = 3;
/** With less free space than this the server would fail again at once. */
const ROOM_BYTES = 16 * 1024 * 1024;

/**
 * Stops a server that refuses messages although its disk has room, so that its supervisor restarts it: after a write
 * error, such as that of a full disk, nats-server refuses messages until then.
 */
export async function stopOnStorageFailure(server: NatsServer, dir: string): Promise<void> {
  let running = true;
  void server.exited.then(() => {
    running = false;
  });
  for (let failed = 0; running; failed = (await isHealthy(server)) ? 0 : failed + 1) {
    if (failed >= FAILED_CHECKS && (await hasRoom(dir))) return server.stop();
    await delay(CHECK_MS, undefined, { ref: false });
  }
}

/** Returns false only when the server reports a failed stream; one that does not answer counts as healthy. */
async function isHealthy({ monitorUrl }: NatsServer): Promise<boolean> {
  const answer = await httpGet(`${monitorUrl}/healthz`).catch(() => undefined);
  return answer?.status !== 503;
}

/** Whether a server on this folder fails for another reason than a full disk. */
export async function hasRoom(dir: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize >= ROOM_BYTES;
}
