import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { RequestListener, ServerResponse } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { eventually } from "../../../kit/testing/testing.ts";
import { A, DIGEST, startDoor } from "./testing.ts";

const BLOB = `/v2/apps/${A}/blobs/${DIGEST}`;
const doors: Awaited<ReturnType<typeof startDoor>>[] = [];
afterEach(async () => {
  for (const door of doors.splice(0)) await door.close();
});

async function start(...given: Parameters<typeof startDoor>) {
  const door = await startDoor(...given);
  doors.push(door);
  return door;
}

test("status, range and digest are the registry's, and its other headers stay behind", async () => {
  const content = randomBytes(1_000);
  const door = await start(({ headers }, response) => {
    const [, from] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
    const part = content.subarray(Number(from ?? 0));
    response.writeHead(from ? 206 : 200, {
      ...{ "content-length": part.length, "content-type": "application/octet-stream", etag: `"${DIGEST}"` },
      ...{ "docker-content-digest": DIGEST, location: "http://127.0.0.1/", "set-cookie": "x=1" },
      ...(from && { "content-range": `bytes ${from}-999/1000` }),
    });
    response.end(part);
  });
  const whole = await door.open(BLOB, A);
  expect(await buffer(whole)).toEqual(content);
  expect(whole.headers).toMatchObject({ "content-length": "1000", "docker-content-digest": DIGEST });
  expect(Object.keys(whole.headers)).not.toEqual(expect.arrayContaining(["location"]));
  expect([whole.headers.location, whole.headers["set-cookie"]]).toEqual([undefined, undefined]);
  const rest = await door.open(BLOB, A, { range: "bytes=900-" });
  expect([rest.statusCode, rest.headers["content-range"]]).toEqual([206, "bytes 900-999/1000"]);
  expect(await buffer(rest)).toEqual(content.subarray(900));
});

test.each([301, 404, 416, 500])("an answer %s of the registry is passed on", async (status) => {
  const door = await start((_, response) => response.writeHead(status).end("{}"));
  expect(await door.ask(BLOB, A)).toMatchObject({ status, text: "{}" });
});

/** Answers without an end, and counts the bytes that were taken. */
function endless(count: { written: number; closed: boolean }): RequestListener {
  const chunk = randomBytes(64 * 1024);
  return (_, response) => {
    const write = () => {
      while (!response.destroyed && response.write(chunk)) count.written += chunk.length;
      response.once("drain", write);
    };
    response.on("close", () => {
      count.closed = true;
    });
    write();
  };
}

test("a client that stops reading has the registry wait, holds little, and is let go once it stands still", async () => {
  const count = { written: 0, closed: false };
  const door = await start(endless(count), { idleMs: 500 });
  const answer = await door.open(BLOB, A);
  answer.pause();
  await eventually("the registry is let go", async () => count.closed);
  expect(count.written).toBeLessThan(64 * 1024 * 1024);
  answer.destroy();
});

test("a client that goes away lets the registry go, before and within its answer", async () => {
  const count = { written: 0, closed: false };
  const door = await start(endless(count));
  (await door.open(BLOB, A)).destroy();
  await eventually("the registry is let go", async () => count.closed);

  let closed = false;
  const silent = await start((asking) => asking.socket.on("close", () => (closed = true)));
  const socket = connect(silent.port, "127.0.0.1");
  socket.write(`GET ${BLOB} HTTP/1.1\r\nHost: x\r\nAuthorization: ${silent.loginOf(A)}\r\n\r\n`);
  await eventually("it was asked", async () => silent.asked.length === 1);
  socket.destroy();
  await eventually("the registry is let go", async () => closed);
  expect([door.warnings, silent.warnings]).toEqual([[], []]);
});

test("an answer that breaks off breaks off, and never looks whole", async () => {
  for (const headers of [{ "content-length": "1000" }, {}]) {
    const door = await start((_, response) => {
      response.writeHead(200, headers);
      response.write("the first half", () => response.destroy());
    });
    await expect(door.open(BLOB, A).then(buffer)).rejects.toThrow(/aborted|ECONNRESET/);
    expect(JSON.stringify(door.warnings)).not.toContain(door.loginOf(A).slice(6));
  }
});

test("a registry that is away, or closes before it answers, is 503", async () => {
  const door = await start(({ socket }) => socket.destroy());
  for (const _ of [1, 2]) {
    const { status, text } = await door.ask(BLOB, A);
    expect([status, JSON.parse(text).errors[0].code]).toEqual([503, "UNAVAILABLE"]);
    await door.endRegistry();
  }
  expect(door.warnings).toHaveLength(2);
});

test("no answer takes longer than it may, however little comes of it", async () => {
  const door = await start(
    (_, response) => {
      const drip = setInterval(() => response.write("."), 20);
      response.on("close", () => clearInterval(drip));
    },
    { answerMs: 300 },
  );
  await expect(door.open(BLOB, A).then(buffer)).rejects.toThrow(/aborted|ECONNRESET/);
});

test("who says nothing is let go", async () => {
  const door = await start(undefined, { idleMs: 200 });
  expect(await door.send("")).not.toMatch(/ 200 /);
  expect(await door.send("GET /v2/ HTTP/1.1\r\nHost:")).not.toMatch(/ 200 /);
});

test("a door that stops takes nobody new, and lets pulls end", async () => {
  let registry: ServerResponse | undefined;
  const door = await start((_, response) => {
    registry = response.writeHead(200, { "content-length": "10" });
    registry.write("first");
  });
  const pull = await door.open(BLOB, A);
  const stopped = door.stop();
  const socket = connect(door.port, "127.0.0.1");
  const [error] = await once(socket, "error");
  expect(error.code).toBe("ECONNREFUSED");
  registry!.end("after");
  expect((await buffer(pull)).toString()).toBe("firstafter");
  await stopped;
});

test("a pull that does not end is broken when the time to stop is over", async () => {
  const door = await start((_, response) => void response.write("first"), { drainMs: 200 });
  const pull = await door.open(BLOB, A);
  await door.stop();
  await expect(buffer(pull)).rejects.toThrow(/aborted|ECONNRESET/);
});
