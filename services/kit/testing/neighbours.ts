import type { ConnectRouter } from "@connectrpc/connect";
import { createLog } from "../log.ts";
import { serve } from "../process/server.ts";
import { openProxy } from "./proxy.ts";
import { testKeys } from "./testing.ts";

/** Starts a real server in the place of other services, behind a proxy that can cut it off. */
export async function startNeighbours(routes: (router: ConnectRouter) => void) {
  const server = await serve({
    ...{ host: "127.0.0.1", port: 0, grpcPort: 0, keys: testKeys },
    log: createLog("neighbours", "silent"),
    routes,
    ready: async () => true,
  });
  const direct = `http://127.0.0.1:${server.port}`;
  const proxy = await openProxy(new URL(direct));
  return {
    url: proxy.of(direct).replace(/\/$/, ""),
    proxy,
    stop: async () => {
      proxy.shut();
      await server.stop();
    },
  };
}
