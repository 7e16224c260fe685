import { createServer, type Server } from "node:http";
import { listen } from "../../services/kit/process/server.ts";
import { metricsText } from "../../services/kit/telemetry.ts";

/** Serves /metrics on a port of its own, if one is configured. The public port never does. */
export async function startMetrics(config: {
  host: string;
  metricsPort: number | undefined;
}): Promise<Server | undefined> {
  if (config.metricsPort === undefined) return undefined;
  const server = createServer((req, res) => {
    if (req.url !== "/metrics") return void res.writeHead(404).end();
    metricsText().then(
      (text) => res.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(text),
      () => res.writeHead(500).end(),
    );
  });
  await listen(server, config.metricsPort, config.host);
  return server;
}
