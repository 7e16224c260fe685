import { statfs } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { httpGet } from "../processes/http-get.ts";
import type { NatsServer } from "./nats.ts";

const LOOK_MS = 2_000;
/** How often in a row its streams must be unhealthy: a single answer may come from a moment of load. */
const FAILED_LOOKS = 3;
/** With less than this it would fail again at once. */
const ROOM_BYTES = 16 * 1024 * 1024;

/**
 * Ends a server that takes no messages any more although its disk has room: nats-server keeps a write error,
 * such as that of a full disk, until it is started again. Whoever keeps it running does that.
 */
export async function endWhenStorageFailed(server: NatsServer, dir: string): Promise<void> {
  let running = true;
  void server.exited.then(() => {
    running = false;
  });
  for (let failed = 0; running; failed = (await isHealthy(server)) ? 0 : failed + 1) {
    if (failed >= FAILED_LOOKS && (await hasRoom(dir))) return server.stop();
    await delay(LOOK_MS, undefined, { ref: false });
  }
}

/** Whether no stream is at fault; a server that does not answer is not this module's business. */
async function isHealthy({ monitorUrl }: NatsServer): Promise<boolean> {
  const answer = await httpGet(`${monitorUrl}/healthz`).catch(() => undefined);
  return answer?.status !== 503;
}

async function hasRoom(dir: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize >= ROOM_BYTES;
}
