import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Returns a port that nothing listens on at 127.0.0.1. It lies below the ranges from which Linux (32768) and
 * macOS (49152) take the ports of outgoing connections, and below those of apps (24000), so that neither takes it
 * before it is bound or while its process is started again.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(20_000, 24_000);
    if (await isFree(port)) return port;
  }
  throw new Error("No free port was found between 20000 and 24000 on 127.0.0.1.");
}

/** Returns whether a server can listen on this port of 127.0.0.1 now. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
