import { once } from "node:events";
import { createServer } from "node:net";
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
