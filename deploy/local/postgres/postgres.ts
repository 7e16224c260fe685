import { readFile, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { lockFolder } from "../data/folder-lock.ts";
import { type Child, type Exit, startChild } from "../processes/child.ts";
import { endOrphan, workingUnder } from "../processes/process-table.ts";
import { StartFailure } from "../terminal/failure.ts";
import { findBinaries } from "./binaries.ts";
import { because, command, damaged, prepareFolder } from "./data-directory.ts";
import { findIdentity, letPass } from "./os-user.ts";

export type PostgresOptions = {
  /** The server's folder: made when missing, owned by this server alone. */
  dir: string;
  /** Port at 127.0.0.1; a free one when left out. */
  port?: number;
  /** false: nothing is forced to disk. Faster, for tests; a crash of the machine loses the data. */
  durable: boolean;
  /** File to which the server's own log is appended; `<dir>/postgres.log` when left out. */
  log?: string;
};

export type PostgresServer = {
  port: number;
  /** Connection URL of a database; of the superuser unless another user is given. */
  url(database: string, user?: string, password?: string): string;
  /** The superuser's URL of the database `postgres`. */
  adminUrl: string;
  pid: number;
  /** Resolves when the server's process is gone, whoever ended it. */
  exited: Promise<Exit>;
  /** Ends open connections and stops within 10 s; may be called again. */
  stop(): Promise<void>;
  /** Ends at once, without losing what was committed. */
  kill(): void;
};

/**
 * Start a PostgreSQL of our own on a folder, listening on 127.0.0.1 only, and wait until a connection works.
 * The superuser's password is made once and kept in `<dir>/password` (mode 0600). A server that a killed
 * process left running on the folder is ended first.
 *
 * @throws StartFailure `folderTaken` when the folder is in use, `folderDamaged` when its files cannot be
 * served, `cannotRun` when PostgreSQL cannot run here, `portInUse`.
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
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

async function start(options: PostgresOptions): Promise<PostgresServer> {
  const { dir } = options;
  const log = options.log ?? join(dir, "postgres.log");
  const data = join(dir, "data");
  const binaries = await findBinaries();
  await letPass(dir);
  await endLeftover(data);
  const identity = await findIdentity(dir, binaries.postgres);
  const password = await prepareFolder({
    dir,
    initdb: binaries.initdb,
    identity,
    log,
    durable: options.durable,
  });
  const port = options.port ?? (await freePort());
  const url = (database: string, user = "postgres", secret = password) =>
    `postgres://${encodeURIComponent(user)}:${encodeURIComponent(secret)}@127.0.0.1:${port}/${database}`;
  const args = ["-D", data, "-p", String(port), ...settings(options.durable)];
  const child = await startChild(command(identity, binaries.postgres, args, dir), log, "SIGINT");
  const stop = async () => void (await child.end("SIGINT", 8_000));
  try {
    await untilReady(child, url("postgres"), { log, port, data });
  } catch (error) {
    await stop();
    throw error;
  }
  const kill = () => child.kill("SIGQUIT");
  return { port, url, adminUrl: url("postgres"), pid: child.pid, exited: child.exited, stop, kill };
}

/** How an orphan on this folder is recognised, also by processes that run as another user. */
const marker = "cluster_name=berth";

function settings(durable: boolean): string[] {
  const common = [
    marker,
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    // A laptop's share: few helpers, little memory.
    "shared_buffers=32MB",
    "max_connections=200",
    "max_worker_processes=2",
    "max_parallel_workers=0",
    "autovacuum_max_workers=1",
    "max_logical_replication_workers=0",
    "io_method=sync",
    "jit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    // A statement or its parameters may hold a secret: they stay out of the log.
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
    "log_checkpoints=off",
  ];
  const careless = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "checkpoint_timeout=1h"];
  // One call for the file system after a crash, however many databases its addons have.
  const system = process.platform === "linux" ? ["recovery_init_sync_method=syncfs"] : [];
  return [...common, ...system, ...(durable ? [] : careless)].flatMap((setting) => ["-c", setting]);
}

/**
 * This process holds the folder's lock, so a server that still runs on it has lost its launcher: end it. When
 * the id in postmaster.pid belongs to some other program now, PostgreSQL would refuse to start; our own id
 * there (the new server's parent) tells it that the file is old, and its check of shared memory stays in force.
 */
async function endLeftover(data: string): Promise<void> {
  const file = join(data, "postmaster.pid");
  const lines = (await readFile(file, "utf8").catch(() => "")).split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 1) return;
  let foreign: string | undefined;
  const isOurs = (line: string) => {
    if (line.includes(data) && line.includes(marker)) return true;
    if (line.includes(data)) foreign = line;
    return false;
  };
  const ended = await endOrphan(pid, isOurs, "SIGINT", 5_000);
  if (foreign !== undefined) {
    throw new StartFailure("folderTaken", `Another PostgreSQL (process ${pid}) runs on the folder ${data}.`);
  }
  if (ended) return;
  await endSessions(data);
  await writeFile(file, [String(process.pid), ...lines.slice(1)].join("\n"));
}

/**
 * The sessions of a server that was killed alone live on until they next look up. Nothing they do can be saved
 * any more, and as long as they hold the shared memory no new server may start.
 */
async function endSessions(data: string): Promise<void> {
  for (const pid of await workingUnder(data)) {
    await endOrphan(pid, (line) => line.startsWith("postgres: "), "SIGKILL", 1_000);
  }
}

type About = { log: string; port: number; data: string };

/** Until the server itself says so in postmaster.pid (the port may be somebody else's), then a real connection. */
async function untilReady(child: Child, url: string, about: About): Promise<void> {
  const file = join(about.data, "postmaster.pid");
  for (;;) {
    if (child.exit()) throw await startFailure(about);
    const lines = (await readFile(file, "utf8").catch(() => "")).split("\n");
    if (lines[0] === String(child.pid) && lines[7]?.trim() === "ready") break;
    await delay(10);
  }
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT 1");
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw damaged(about.data, code === "28P01" ? "the kept password is not the server's" : message);
  } finally {
    await client.end().catch(() => {});
  }
}

async function startFailure(about: About): Promise<StartFailure> {
  const reason = await because(about.log);
  if (/could not bind|could not create any TCP/.test(reason)) {
    return new StartFailure("portInUse", `PostgreSQL cannot listen on 127.0.0.1:${about.port}: ${reason}`);
  }
  if (/pre-existing shared memory/.test(reason)) {
    const sentence = `Sessions of a killed server still work on the folder ${about.data}. Try again in a moment.`;
    return new StartFailure("folderTaken", sentence);
  }
  return damaged(about.data, reason);
}
