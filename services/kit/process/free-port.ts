import { randomInt } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { createServer } from "node:net";

/**
 * Returns a port of 127.0.0.1 that nothing listens on, and reserves it while this process lives, so that what listens
 * on it may be restarted at leisure. Fails when there is none. The range is below those of outgoing connections (from
 * 32768 on Linux, from 49152 on macOS) and below the ports of apps (from 24000).
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(20_000, 24_000);
    if ((await isFree(port)) && (await reserve(port))) return port;
  }
  throw new Error("There is no free port between 20000 and 24000 on 127.0.0.1.");
}

const reserved = new Set<Socket>();

/** Reserves a port by binding the UDP port of the same number, which the system releases when the process ends. */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4").unref();
    socket.once("error", () => socket.close(() => resolve(false)));
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => {
      reserved.add(socket);
      resolve(true);
    });
  });
}

/** Ends the reservations of this process: nothing that it started on one of its ports is started again. */
export function releasePorts(): void {
  for (const socket of reserved) socket.close();
  reserved.clear();
}

/** Whether a server could listen on this port of an address of this machine now. */
export function isFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
