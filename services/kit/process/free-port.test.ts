import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { freePort, isFree } from "./free-port.ts";

test("a free port can be listened on, and is not free then", async () => {
  const port = await freePort();
  expect(await isFree(port)).toBe(true);
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  expect(await isFree(port)).toBe(false);
  const other = await freePort();
  expect(other).not.toBe(port);
  expect(await isFree(other)).toBe(true);
  server.close();
});

const PORTS = 200;
const module = JSON.stringify(join(import.meta.dirname, "free-port.ts"));
const program = `import { freePort } from ${module};
  const ports = [];
  for (let n = 0; n < ${PORTS}; n++) ports.push(await freePort());
  console.log(JSON.stringify(ports));
  for await (const _ of process.stdin);`;

test("a port is given to nobody else as long as the process lives that asked for it", async () => {
  const first = promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  const given = await new Promise<number[]>((resolve) =>
    first.child.stdout!.once("data", (line) => resolve(JSON.parse(String(line)))),
  );
  const second = promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  second.child.stdin!.end();
  const others: number[] = JSON.parse((await second).stdout);
  first.child.stdin!.end();
  await first; // it ends though it holds its ports
  expect(new Set([...given, ...others]).size).toBe(2 * PORTS);
});
