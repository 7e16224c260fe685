import { appendFile, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { JetStreamApiError, jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { ensureStreams } from "../../../services/kit/events/bus.ts";
import { createLog } from "../../../services/kit/log.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { withLockedFolder } from "../data/folder-lock.ts";
import { readOrCreatePassword, writeSafely } from "../data/secrets.ts";
import { StartFailure } from "../failure.ts";
import { type Child, lastLines } from "../processes/child.ts";
import { endOrphan } from "../processes/process-table.ts";
import { type Running, type ServerOptions, startRunning } from "../processes/running.ts";
import { hasRoom } from "./storage-check.ts";

export type NatsOptions = ServerOptions & {
  /** The nats-server program, as `findNatsServer` returns it. */
  binary: string;
  /** Called with a sentence when the store could not be read and is set aside. */
  report?: (line: string) => void;
};

/** A nats-server; it stops within 5 s. */
export type NatsServer = Running & {
  /** With the user and password that the server asks for. */
  url: string;
  port: number;
  /** Its monitoring (`/healthz`), on 127.0.0.1 and without a password. */
  monitorUrl: string;
};

/**
 * Starts a nats-server with JetStream on a folder, listening on 127.0.0.1 only, and waits until a client can sign
 * in. The password is generated once and kept in `<dir>/password`; the server reads it from its configuration file
 * (both mode 0600). A server that a killed process left running is stopped first. A store that cannot be read is set
 * aside: what the outboxes keep is published again (docs/events.md#a-lost-stream).
 *
 * @throws StartFailure `folderTaken`, `portInUse`, `folderDamaged`.
 */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  return withLockedFolder(options.dir, async (dir) => {
    const log = options.log ?? join(dir, "nats.log");
    const start = () => startOn({ ...options, dir, log });
    try {
      return await start();
    } catch (error) {
      const unreadable = error instanceof StartFailure && error.kind === "folderDamaged";
      if (!unreadable || !(await hasRoom(dir))) throw error;
      return startAnew({ dir, log, report: options.report }, error, start);
    }
  });
}

type Aside = { dir: string; log: string; report: NatsOptions["report"] };

/** Starts on an empty store. Where that does not help either, the store stays what it was. */
async function startAnew({ dir, log, report }: Aside, cause: Error, start: () => Promise<NatsServer>) {
  const [store, aside] = [join(dir, "data"), join(dir, `unreadable-${Date.now()}`)];
  await rename(store, aside);
  try {
    const server = await start();
    const line = `NATS could not read its store, which was moved to ${aside}. Events are published again.`;
    await appendFile(log, `${line} ${cause.message}\n`);
    report?.(line);
    return server;
  } catch (error) {
    await rm(store, { recursive: true, force: true });
    await rename(aside, store);
    throw error;
  }
}

async function startOn(options: NatsOptions & { log: string }): Promise<NatsServer> {
  const { dir, binary, log } = options;
  const config = join(dir, "nats.conf");
  await endLeftover(join(dir, "nats.pid"), config);
  await removePortsFiles(dir);
  const password = await readOrCreatePassword(join(dir, "password"));
  const port = options.port ?? (await freePort());
  await mkdir(join(dir, "data"), { recursive: true, mode: 0o700 });
  await writeSafely(config, configuration(dir, port, password));
  // A soft limit for Go's garbage collector: the server stays near 30 MiB.
  const env = { PATH: process.env.PATH, GOMEMLIMIT: "64MiB", GOGC: "50" };
  const command = { file: binary, args: ["-c", config], env, cwd: dir };
  let monitorUrl = "";
  const running = await startRunning(command, log, ENDING, async (child) => {
    monitorUrl = await untilReady(child, { port, password, log, dir });
    await requireStreams(port, password, dir);
  });
  return { ...running, url: `nats://${NATS_USER}:${password}@127.0.0.1:${port}`, port, monitorUrl };
}

/** Fails when the store is such that the streams cannot be made there; services see to everything else. */
async function requireStreams(port: number, password: string, dir: string): Promise<void> {
  const nc = await connectNats({ servers: `127.0.0.1:${port}`, user: NATS_USER, pass: password });
  try {
    await ensureStreams(await jetstreamManager(nc), createLog("nats", "silent"));
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || error.code !== NO_STORE) return;
    throw new StartFailure("folderDamaged", `nats-server cannot serve the folder ${dir}: ${error.message}`);
  } finally {
    await nc.close();
  }
}

/** NATS's code for a stream whose store cannot be created. */
const NO_STORE = 10_049;

export const NATS_USER = "berth";
const ENDING = { stop: "SIGTERM", graceMs: 4_000, kill: "SIGKILL" } as const;

function configuration(dir: string, port: number, password: string): string {
  return [
    `listen: "127.0.0.1:${port}"`,
    "server_name: berth",
    `pid_file: ${JSON.stringify(join(dir, "nats.pid"))}`,
    `ports_file_dir: ${JSON.stringify(dir)}`,
    'http: "127.0.0.1:-1"',
    // A client on a busy machine may need more than the usual 2 s to answer.
    `authorization { user: ${NATS_USER}, password: "${password}", timeout: 60 }`,
    "jetstream {",
    `  store_dir: ${JSON.stringify(join(dir, "data"))}`,
    "  max_memory_store: 64MB",
    "  max_file_store: 2GB",
    "}",
    "max_payload: 4MB",
    "",
  ].join("\n");
}

/** Stops a server that still runs on the folder: this process holds the lock, so its launcher is gone. */
async function endLeftover(pidFile: string, config: string): Promise<void> {
  const pid = Number((await readFile(pidFile, "utf8").catch(() => "")).trim());
  if (!Number.isInteger(pid) || pid <= 1) return;
  await endOrphan(pid, (line) => line.includes(`-c ${config}`), "SIGTERM", 4_000);
}

type ServerFiles = { port: number; password: string; log: string; dir: string };

/**
 * Waits until the server accepts the password, and returns its monitoring URL. The server writes
 * `<program>_<pid>.ports` when it listens; before that another program may own the port, and must not get the password.
 */
async function untilReady(child: Child, files: ServerFiles): Promise<string> {
  for (;;) {
    const monitorUrl = await monitorUrlOf(files.dir, child.pid);
    if (monitorUrl && (await signIn(files.port, files.password))) return monitorUrl;
    if (child.exit()) throw await startFailure(files);
    await delay(20);
  }
}

async function monitorUrlOf(dir: string, pid: number): Promise<string | undefined> {
  const name = (await readdir(dir)).find((file) => file.endsWith(`_${pid}.ports`));
  const text = name && (await readFile(join(dir, name), "utf8"));
  // The file may be there before all of it is written.
  if (!text?.trimEnd().endsWith("}")) return undefined;
  return (JSON.parse(text) as { monitoring: string[] }).monitoring[0];
}

/** Removes what killed servers left of these. */
async function removePortsFiles(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (name.endsWith(".ports")) await rm(join(dir, name), { force: true });
  }
}

async function startFailure({ log, port, dir }: ServerFiles): Promise<StartFailure> {
  const lines = await lastLines(log, 12);
  const reason = (
    lines.findLast((line) => /\[FTL\]|\[ERR\]|nats-server:/.test(line)) ??
    lines.at(-1) ??
    ""
  ).trim();
  return /address already in use/.test(reason)
    ? new StartFailure("portInUse", `nats-server cannot listen on 127.0.0.1:${port}: ${reason}`)
    : new StartFailure("folderDamaged", `nats-server cannot serve the folder ${dir}: ${reason}`);
}

/**
 * Returns whether the server accepts the password: it signs in and waits for the pong to a ping. JetStream is up
 * before the server accepts clients.
 */
function signIn(port: number, password: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", timeout: 5_000 });
    const finish = (worked: boolean) => {
      socket.destroy();
      resolve(worked);
    };
    socket.once("error", () => finish(false));
    socket.once("timeout", () => finish(false));
    socket.once("close", () => finish(false));
    let heard = "";
    let asked = false;
    socket.setEncoding("utf8").on("data", (text: string) => {
      heard += text;
      if (heard.includes("-ERR")) finish(false);
      else if (heard.includes("PONG")) finish(true);
      else if (!asked && heard.includes("\n")) {
        asked = true;
        socket.write(
          `CONNECT ${JSON.stringify({ user: NATS_USER, pass: password, verbose: false })}\r\nPING\r\n`,
        );
      }
    });
  });
}
