import { spawn } from "node:child_process";
import { once } from "node:events";
import { Pool } from "undici";

export type Load = {
  origin: string;
  path: string;
  headers: Record<string, string>;
  connections: number;
  ms: number;
};
export type Measured = { requests: number; perSecond: number; statuses: Record<string, number> };

/** Sends GETs over keep-alive connections from a separate process for `ms`, and counts the answers. */
export async function load(options: Load): Promise<Measured> {
  const child = spawn(process.execPath, [import.meta.filename], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(options));
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  await once(child, "close");
  return JSON.parse(out) as Measured;
}

async function run({ origin, path, headers, connections, ms }: Load): Promise<Measured> {
  const pool = new Pool(origin, { connections, pipelining: 1 });
  const statuses: Record<string, number> = {};
  let requests = 0;
  const until = performance.now() + ms;
  const worker = async () => {
    while (performance.now() < until) {
      const { statusCode, body } = await pool.request({ path, method: "GET", headers });
      await body.dump();
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
      requests++;
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: connections }, worker));
  const seconds = (performance.now() - started) / 1000;
  await pool.close();
  return { requests, perSecond: requests / seconds, statuses };
}

if (import.meta.main) {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  process.stdout.write(JSON.stringify(await run(JSON.parse(input) as Load)));
}
