import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { lockFolder } from "../data/folder-lock.ts";
import { type Child, type Exit, lastLines, startChild } from "../processes/child.ts";
import { endOrphan } from "../processes/process-table.ts";
import { StartFailure } from "../terminal/failure.ts";

export type NatsOptions = {
  /** The nats-server program, as `findNatsServer` returns it. */
  binary: string;
  /** The server's folder: made when missing, owned by this server alone. */
  dir: string;
  /** Port at 127.0.0.1; a free one when left out. */
  port?: number;
  /** File to which the server's own log is appended; `<dir>/nats.log` when left out. */
  log?: string;
};

export type NatsServer = {
  /** With the user and password that the server asks for. */
  url: string;
  port: number;
  /** Its monitoring (`/healthz`), on 127.0.0.1 and without a password. */
  monitorUrl: string;
  pid: number;
  /** Resolves when the server's process is gone, whoever ended it. */
  exited: Promise<Exit>;
  /** Stops within 5 s; may be called again. */
  stop(): Promise<void>;
  /** Kills it at once. */
  kill(): void;
};

/**
 * Starts a nats-server with JetStream on a folder, listening on 127.0.0.1 only, and waits until a client can sign
 * in. The password is generated once and kept in `<dir>/password`; the server reads it from its configuration file
 * (both mode 0600). A server that a killed process left running is stopped first.
 *
 * @throws StartFailure `folderTaken`, `portInUse`, `folderDamaged`.
 */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  const lock = await lockFolder(options.dir);
  try {
    const server = await start({ ...options, dir: await realpath(options.dir) });
    void server.exited.then(() => lock.release());
    return server;
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function start(options: NatsOptions): Promise<NatsServer> {
  const { dir, binary } = options;
  const log = options.log ?? join(dir, "nats.log");
  const config = join(dir, "nats.conf");
  await endLeftover(join(dir, "nats.pid"), config);
  await removePortsFiles(dir);
  const password = await readOrCreatePassword(join(dir, "password"));
  const port = options.port ?? (await freePort());
  await mkdir(join(dir, "data"), { recursive: true, mode: 0o700 });
  await writeSecret(config, configuration(dir, port, password));
  // A soft limit for Go's garbage collector: the server stays near 30 MiB.
  const env = { PATH: process.env.PATH, GOMEMLIMIT: "64MiB", GOGC: "50" };
  const command = { file: binary, args: ["-c", config], env, cwd: dir };
  const child = await startChild(command, log, "SIGTERM");
  const stop = async () => void (await child.end("SIGTERM", 4_000));
  let monitorUrl: string;
  try {
    monitorUrl = await untilReady(child, { port, password, log, dir });
  } catch (error) {
    await stop();
    throw error;
  }
  const url = `nats://${USER}:${password}@127.0.0.1:${port}`;
  const kill = () => child.kill("SIGKILL");
  return { url, port, monitorUrl, pid: child.pid, exited: child.exited, stop, kill };
}

const USER = "berth";

function configuration(dir: string, port: number, password: string): string {
  return [
    `listen: "127.0.0.1:${port}"`,
    "server_name: berth",
    `pid_file: ${JSON.stringify(join(dir, "nats.pid"))}`,
    `ports_file_dir: ${JSON.stringify(dir)}`,
    'http: "127.0.0.1:-1"',
    `authorization { user: ${USER}, password: "${password}" }`,
    "jetstream {",
    `  store_dir: ${JSON.stringify(join(dir, "data"))}`,
    "  max_memory_store: 64MB",
    "  max_file_store: 2GB",
    "}",
    "max_payload: 4MB",
    "",
  ].join("\n");
}

async function readOrCreatePassword(file: string): Promise<string> {
  const kept = (await readFile(file, "utf8").catch(() => "")).trim();
  if (kept !== "") return kept;
  // A letter first: the configuration language reads a bare digit as the start of a number.
  const password = `p${randomBytes(24).toString("hex")}`;
  await writeSecret(file, password);
  return password;
}

async function writeSecret(file: string, content: string): Promise<void> {
  await writeFile(`${file}.new`, content, { mode: 0o600 });
  await rename(`${file}.new`, file);
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
 * Speak the first words of the NATS protocol: sign in, ping, and see whether a pong comes back. JetStream is
 * up before the server accepts clients.
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
        socket.write(`CONNECT ${JSON.stringify({ user: USER, pass: password, verbose: false })}\r\nPING\r\n`);
      }
    });
  });
}
