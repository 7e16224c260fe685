import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { RedisRefusal } from "../redis-client.ts";
import { ask, parseReplies } from "./redis-replies.ts";

const REPLIES = "+OK\r\n$7\r\ná\r\nb\0c\r\n*3\r\n:14\r\n$-1\r\n*2\r\n$0\r\n\r\n+x\r\n-ERR no\r\n:1\r\n";
const PARSED = ["OK", "á\r\nb\0c", [14, null, ["", "x"]], new RedisRefusal("ERR no"), 1];

test("replies are read wherever what was received of them ends", () => {
  const bytes = Buffer.from(REPLIES);
  expect(parseReplies(bytes)).toEqual(PARSED);
  for (let end = 0; end < bytes.length; end++) {
    const found = parseReplies(bytes.subarray(0, end));
    expect(found).toEqual(PARSED.slice(0, found.length));
    expect(found.length).toBeLessThan(PARSED.length);
  }
});

test("what is no reply is refused, also one that would take much to read", () => {
  for (const text of ["HTTP/1.1 400\r\n", "$x\r\n", "*1.5\r\n", "*1\r\n".repeat(20), "\r\n"])
    expect(() => parseReplies(Buffer.from(text))).toThrow("no reply");
  expect(parseReplies(Buffer.from("*1000000000\r\n"))).toEqual([]);
  expect(parseReplies(Buffer.from("$1000000000\r\n"))).toEqual([]);
});

async function serve(answer: (socket: Socket) => void) {
  const server = createServer((socket) => answer(socket.on("error", () => {}).resume()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

test("a server that refuses, ends or sends without end is left", async () => {
  const commands = [["PING"], ["INFO"]];
  const refusing = await serve((socket) => void socket.write("+PONG\r\n-LOADING it loads\r\n"));
  await expect(ask(refusing, commands)).rejects.toMatchObject({ code: "LOADING" });
  const ending = await serve((socket) => void socket.end("+PONG\r\n"));
  await expect(ask(ending, commands)).rejects.toMatchObject({ code: "ECONNRESET" });
  const endless = await serve((socket) => void socket.write(`$1000000000\r\n${"x".repeat(2 ** 21)}`));
  await expect(ask(endless, commands)).rejects.toThrow("too long");
  const silent = await serve(() => {});
  await expect(ask(silent, commands)).rejects.toMatchObject({ code: "ETIMEDOUT" });
});
