import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { createServer } from "node:net";

/**
 * Returns a port that nothing listens on at 127.0.0.1, and that is given to nobody else as long as this process
 * lives: what listens on it may take its time to be started again. It lies below the ranges from which Linux
 * (32768) and macOS (49152) take the ports of outgoing connections, and below those of apps (24000).
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(20_000, 24_000);
    if ((await isFree(port)) && (await claim(port))) return port;
  }
  throw new Error("No free port was found between 20000 and 24000 on 127.0.0.1.");
}

/** Holds the UDP port of the same number, which nothing else uses: the system gives it back with the process. */
function claim(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4").unref();
    socket.once("error", () => socket.close(() => resolve(false)));
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => resolve(true));
  });
}

/** Returns whether a server can listen on this port of 127.0.0.1 now. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
