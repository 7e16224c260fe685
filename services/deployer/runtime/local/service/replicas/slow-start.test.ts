import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { explainSlowStart, listeningPorts } from "./slow-start.ts";

const folder = mkdtempSync(join(tmpdir(), "berth-slow-"));
let listening: number;
let stop: () => Promise<void>;

beforeAll(async () => {
  const script = `const server = require("node:net").createServer().listen(0, "127.0.0.1", () => console.log(server.address().port))`;
  const app = spawn(process.execPath, ["-e", script], { env: { HOME: join(folder, "home") } });
  listening = Number(String((await once(app.stdout, "data"))[0]));
  stop = async () => {
    app.kill();
    await once(app, "exit");
    await rm(folder, { recursive: true });
  };
});
afterAll(() => stop());

const WORKER = " An app that serves no requests has to be a service of type worker.";

const firstSentence = (app: { port: number; path: string | undefined; folder?: string }) =>
  new Promise<string>((resolve) => {
    const ended = new AbortController();
    void explainSlowStart({ folder, ...app }, 0, ended.signal, (why) => {
      ended.abort();
      resolve(why);
    });
  });

test("an app that listens on another port than PORT is told which, where the system says it", async () => {
  const onLinux = process.platform === "linux";
  expect(listeningPorts(folder)).toEqual(onLinux ? [listening] : []);
  const instead = ` It listens on ${listening} instead of the port in the variable PORT.`;
  expect(await firstSentence({ port: 1, path: undefined })).toBe(
    `The app is running, but nothing accepted a connection on PORT (1).${onLinux ? instead : WORKER}`,
  );
});

test("an app that listens nowhere is told that it may be a worker", async () => {
  const nowhere = mkdtempSync(join(tmpdir(), "berth-slow-"));
  expect(await firstSentence({ port: 1, path: undefined, folder: nowhere })).toBe(
    `The app is running, but nothing accepted a connection on PORT (1).${WORKER}`,
  );
  await rm(nowhere, { recursive: true });
});

test("an app whose health check fails is told how it answers", async () => {
  const server = createServer((_, response) => response.writeHead(503).end("no\u0007 database\nand more"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  expect(await firstSentence({ port, path: "/health" })).toBe(
    `The app is running, but GET /health on PORT (${port}) was answered with 503: “no database”, not with 200–399.`,
  );
  server.close();
});

test("one that has ended meanwhile is told nothing", async () => {
  const said: string[] = [];
  await explainSlowStart({ port: 1, path: undefined, folder }, 60_000, AbortSignal.abort(), (why) =>
    said.push(why),
  );
  expect(said).toEqual([]);
});
