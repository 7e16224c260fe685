import type { Metrics } from "../../../proto/gen/berth/deployer/v1/metrics_pb.ts";

/** An app that computes for each request, fails at /fail, and has nothing at /missing. */
export const busyApp = {
  "package.json": JSON.stringify({ name: "busy", scripts: { start: "node server.js" } }),
  "server.js": `
    require("node:http").createServer((req, res) => {
      const until = performance.now() + 20;
      while (performance.now() < until);
      res.writeHead({ "/fail": 500, "/missing": 404 }[req.url] ?? 200).end(String(process.pid));
    }).listen(process.env.PORT);`,
};

/** Returns the sum of a series; undefined when it is left out. */
export function sumOf({ series }: Pick<Metrics, "series">, name: string): number | undefined {
  const found = series.find((one) => one.name === name);
  return found?.points.reduce((sum, { value }) => sum + value, 0);
}
