import { randomInt } from "node:crypto";
import { isFree } from "../../../kit/process/free-port.ts";

const RESERVED_MS = 60_000;

const reserved = new Set<number>();

/**
 * Returns a port for an app or a redis server that nothing listens on, and that this process has not returned within the
 * last minute. It lies below the ports of outgoing connections: one of those could take it first, or a probe of a port
 * that nothing listens on could connect to itself.
 */
export async function chooseAppPort(): Promise<number> {
  for (;;) {
    // Below 24000 are the platform's own processes, whose ports may be free for a moment.
    const port = randomInt(24_000, 32_768);
    if (reserved.has(port) || !(await isFree(port))) continue;
    reserved.add(port);
    setTimeout(() => reserved.delete(port), RESERVED_MS).unref();
    return port;
  }
}
