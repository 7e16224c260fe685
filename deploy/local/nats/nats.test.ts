import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { programsDir } from "../../../services/kit/process/program.ts";
import { commandLine, isAlive } from "../processes/process-table.ts";
import { killHard, launch, moduleUrl } from "../testing.ts";
import { findNatsServer } from "./install.ts";
import { startNats } from "./nats.ts";

let dir: string;
let binary: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-nats-"));
  // Registered first and so called last: what a test started in the folder has ended by then.
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  binary = await findNatsServer(programsDir, console.log);
});

const start = async (options: Partial<Parameters<typeof startNats>[0]> = {}) => {
  const server = await startNats({ binary, dir: join(dir, "nats"), ...options });
  onTestFinished(() => server.stop());
  return server;
};

async function signIn(url: string): Promise<NatsConnection> {
  const { host, username, password } = new URL(url);
  const client = await connect({ servers: host, user: username, pass: password, reconnect: false });
  onTestFinished(() => client.close());
  return client;
}

async function publish(url: string): Promise<void> {
  const client = await signIn(url);
  await (await jetstreamManager(client)).streams.add({ name: "KEPT", subjects: ["kept.>"] });
  await jetstream(client).publish("kept.one", "hello");
}

async function count(url: string): Promise<number> {
  const manager = await jetstreamManager(await signIn(url));
  return (await manager.streams.info("KEPT")).state.messages;
}

test("messages and password survive a stop and a start", async () => {
  const first = await start();
  await publish(first.url);
  await first.stop();
  await first.stop();
  const second = await start({ port: first.port });
  expect(second.url).toBe(first.url);
  expect(await count(second.url)).toBe(1);
});

test("a server that listens but has not yet told its ports whole is waited for", async () => {
  const early = join(dir, "early-nats-server");
  const script = [
    `"${binary}" "$@" & server=$!`,
    `trap 'kill $server' TERM`,
    `whole="${join(dir, "nats", basename(binary))}_$server.ports"`,
    `part="${join(dir, "nats")}/early_$$.ports"`,
    `until [ -s "$whole" ]; do sleep 0.05; done`,
    `head -c 10 "$whole" > "$part"; sleep 1; cat "$whole" > "$part"`,
    "wait $server; wait $server",
  ];
  await writeFile(early, `#!/bin/sh\n${script.join("\n")}\n`, { mode: 0o700 });
  const server = await startNats({ binary: early, dir: join(dir, "nats") });
  onTestFinished(() => server.stop());
  expect((await fetch(`${server.monitorUrl}/healthz`)).status).toBe(200);
});

test("acknowledged messages survive a kill", async () => {
  const first = await start();
  await publish(first.url);
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  expect(await count((await start()).url)).toBe(1);
});

test.each(["data/jetstream", "data/jetstream/$G/streams/BERTH"])(
  "a store whose %s cannot be read is set aside, with a line in the log",
  async (path) => {
    const lines: string[] = [];
    await (await start()).stop();
    await rm(join(dir, "nats", path), { recursive: true });
    await writeFile(join(dir, "nats", path), "not a folder");
    const server = await start({ report: (line) => lines.push(line) });
    await publish(server.url);
    expect(lines).toEqual([
      expect.stringMatching(/could not read its store, which was moved to .*unreadable-\d+\./),
    ]);
    expect(await readFile(join(dir, "nats/nats.log"), "utf8")).toContain(lines[0]);
    expect((await readdir(join(dir, "nats"))).filter((name) => name.startsWith("unreadable-"))).toHaveLength(
      1,
    );
  },
);

test("nobody gets in without the password, which only its owner can read", async () => {
  const server = await start();
  const { host, password } = new URL(server.url);
  await expect(connect({ servers: host, reconnect: false })).rejects.toThrow(/Authorization/);
  expect(await commandLine(server.pid)).not.toContain(password);
  expect(await readFile(join(dir, "nats/nats.log"), "utf8")).not.toContain(password);
  for (const file of ["password", "nats.conf"]) {
    expect((await stat(join(dir, "nats", file))).mode & 0o777).toBe(0o600);
  }
});

test("a client that a busy machine holds up for seconds is admitted", async () => {
  const { url, port } = await start();
  const { username: user, password: pass } = new URL(url);
  const socket = createConnection(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const closed = once(socket, "close");
  await once(socket, "data");
  // nats-server waits for 2 s where nothing else is configured.
  await delay(2_500);
  socket.write(`CONNECT ${JSON.stringify({ user, pass, verbose: false })}\r\nPING\r\n`);
  const [answer] = await Promise.race([once(socket, "data"), closed]);
  expect(String(answer)).toBe("PONG\r\n");
});

test("a server that outlived its launcher is ended by the next start", async () => {
  const launcher = await launch<number>(
    `import { startNats } from ${JSON.stringify(moduleUrl("nats/nats.ts"))};
     const binary = ${JSON.stringify(binary)};
     print((await startNats({ binary, dir: ${JSON.stringify(join(dir, "nats"))} })).pid);`,
    "/nonexistent",
  );
  await killHard(launcher.process);
  expect(isAlive(launcher.value)).toBe(true);
  await start();
  expect(await commandLine(launcher.value)).toBeUndefined();
});

test("a second start on the folder is refused", async () => {
  await start();
  await expect(start()).rejects.toMatchObject({ kind: "folderTaken" });
});

test("a port in use is named", async () => {
  const first = await start();
  await expect(start({ dir: join(dir, "other"), port: first.port })).rejects.toMatchObject({
    kind: "portInUse",
    message: expect.stringContaining(String(first.port)),
  });
});

test("a nats-server on the PATH is taken before any other", async () => {
  vi.stubEnv("PATH", dirname(binary));
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await findNatsServer(join(dir, "cache"), () => {})).toBe(binary);
});

test("without a nats-server and without a way to get one, the sentence says what to do", async () => {
  vi.stubEnv("PATH", "/nonexistent");
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(findNatsServer(join(dir, "cache"), () => {})).rejects.toMatchObject({
    kind: "natsMissing",
    message: expect.stringMatching(
      /Install nats-server 2\.9 or newer .* put the program at .*cache\/nats-server/,
    ),
  });
});
