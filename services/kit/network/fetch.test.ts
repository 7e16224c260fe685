import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { expect, onTestFinished, test } from "vitest";
import { fetch } from "./fetch.ts";

test("an answer is read to its end also by who is slower than the server, which has closed the connection", async () => {
  const content = Buffer.alloc(1024 ** 2, "content ");
  const server = createServer((socket) => {
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\nConnection: close\r\n\r\n`);
      socket.end(content);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  // Not each one ended a process whose fetch was that of Node.js.
  for (let turn = 0; turn < 10; turn++) {
    const { body } = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    let bytes = 0;
    const slow = new Writable({
      write(chunk: Buffer, _, done) {
        bytes += chunk.length;
        setTimeout(done, 1);
      },
    });
    await pipeline(Readable.fromWeb(body as never), slow);
    expect(bytes).toBe(content.length);
  }
});
