import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { expect, onTestFinished, test } from "vitest";
import { downloadFrom } from "./download.ts";

const { signal } = new AbortController();
const content = Buffer.alloc(1024 ** 2, "content ");

/** Downloads what a server sends that closes the connection then, and writes it slowly; returns how much. */
async function saved(sent: Buffer): Promise<number> {
  const server = createServer((socket) => {
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\nConnection: close\r\n\r\n`);
      socket.end(sent);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const answer = await downloadFrom(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, signal);
  let bytes = 0;
  const slow = new Writable({
    write(chunk: Buffer, _, done) {
      bytes += chunk.length;
      setTimeout(done, 1);
    },
  });
  await pipeline(answer, slow);
  return bytes;
}

test("what is written more slowly than it comes is whole", async () => {
  // Not each one ended a process that used fetch.
  for (let turn = 0; turn < 10; turn++) expect(await saved(content)).toBe(content.length);
});

test("what does not all come is an error", async () => {
  await expect(saved(content.subarray(0, content.length / 2))).rejects.toThrow("aborted");
});
