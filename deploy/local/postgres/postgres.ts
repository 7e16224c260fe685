import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { withLockedFolder } from "../data/folder-lock.ts";
import { StartFailure } from "../failure.ts";
import type { Child } from "../processes/child.ts";
import { endOrphan, findByWorkingDirectory } from "../processes/process-table.ts";
import { type Running, type ServerOptions, startRunning } from "../processes/running.ts";
import { findBinaries } from "./binaries.ts";
import { command, damagedFolder, failureReason, prepareDataDirectory } from "./data-directory.ts";
import { allowTraversal, findOsUser } from "./os-user.ts";

export type PostgresOptions = ServerOptions & {
  /** false: nothing is forced to disk. Faster, for tests; a crash of the machine loses the data. */
  durable: boolean;
};

/** PostgreSQL; it closes open connections and stops within 10 s. A kill loses nothing that was committed. */
export type PostgresServer = Running & {
  port: number;
  /** Connection URL of a database; of the superuser unless another user is given. */
  url(database: string, user?: string, password?: string): string;
  /** The superuser's URL of the database `postgres`. */
  adminUrl: string;
};

/**
 * Starts PostgreSQL on a folder, listening on 127.0.0.1 only, and waits until a connection works.
 * The superuser's password is generated once and kept in `<dir>/password` (mode 0600). A server that a killed
 * process left running on the folder is stopped first.
 *
 * @throws StartFailure `folderTaken` when the folder is in use, `folderDamaged` when its files cannot be
 * served, `cannotRun` when PostgreSQL cannot run here, `portInUse`.
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  return withLockedFolder(options.dir, (dir) => start({ ...options, dir }));
}

async function start(options: PostgresOptions): Promise<PostgresServer> {
  const { dir } = options;
  const log = options.log ?? join(dir, "postgres.log");
  const data = join(dir, "data");
  const binaries = await findBinaries();
  await allowTraversal(dir);
  await endLeftover(data);
  const osUser = await findOsUser(dir, binaries.postgres);
  const password = await prepareDataDirectory({
    dir,
    initdb: binaries.initdb,
    osUser,
    log,
    durable: options.durable,
  });
  const port = options.port ?? (await freePort());
  const url = (database: string, user = "postgres", secret = password) =>
    `postgres://${encodeURIComponent(user)}:${encodeURIComponent(secret)}@127.0.0.1:${port}/${database}`;
  const args = ["-D", data, "-p", String(port), ...settings(options.durable, binaries.collects)];
  const adminUrl = url("postgres");
  const server = command(osUser, binaries.postgres, args, dir);
  const running = await startRunning(server, log, ENDING, (child) =>
    untilReady(child, adminUrl, { log, port, data }, binaries.collects),
  );
  void endShutdown(running, data);
  return { ...running, port, url, adminUrl };
}

const CHECK_MS = 500;

/**
 * Ends a server that is shutting down. After a SIGTERM it would refuse new clients and wait until the last of the old
 * ones leaves, which services never do; its supervisor starts it again once it has exited.
 */
async function endShutdown(server: Running, data: string): Promise<void> {
  let running = true;
  void server.exited.then(() => {
    running = false;
  });
  while (running) {
    if ((await statusOf(data, server.pid)) === "stopping") return server.stop();
    await delay(CHECK_MS, undefined, { ref: false });
  }
}

/** Returns what the server with this pid says of itself in postmaster.pid. */
async function statusOf(data: string, pid: number): Promise<string | undefined> {
  const lines = (await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
  return lines[0] === String(pid) ? lines[7]?.trim() : undefined;
}

const ENDING = { stop: "SIGINT", graceMs: 8_000, kill: "SIGQUIT" } as const;

/** Identifies an orphan on this folder, also one that runs as another user. */
const MARKER = "cluster_name=berth";

/** Statements of addons are shown to their users, without the values in them; those that set passwords are not collected. */
const COLLECTING = ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_utility=off"];

function settings(durable: boolean, collects: boolean): string[] {
  const common = [
    MARKER,
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    // Sized for a laptop: few worker processes, little memory.
    "shared_buffers=32MB",
    "max_worker_processes=2",
    "max_parallel_workers=0",
    "autovacuum_max_workers=1",
    "max_logical_replication_workers=0",
    "io_method=sync",
    "jit=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    // A statement or its parameters may contain a secret: they are not logged.
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
    "log_checkpoints=off",
  ];
  // Of tests, as many workers as a machine has processors share a server.
  const fast = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "checkpoint_timeout=1h",
    "max_connections=1000",
  ];
  // Recovery syncs the file system with one call, however many databases the addons have.
  const system = process.platform === "linux" ? ["recovery_init_sync_method=syncfs"] : [];
  const collecting = collects ? COLLECTING : [];
  const all = [...common, ...system, ...collecting, ...(durable ? ["max_connections=200"] : fast)];
  return all.flatMap((setting) => ["-c", setting]);
}

/**
 * Stops a server that still runs on the folder: this process holds the lock, so its launcher is gone. When the pid
 * in postmaster.pid belongs to another program now, PostgreSQL would refuse to start; with our own pid there (the
 * new server's parent) it takes the file as stale, and still checks the shared memory.
 */
async function endLeftover(data: string): Promise<void> {
  const file = join(data, "postmaster.pid");
  const lines = (await readFile(file, "utf8").catch(() => "")).split("\n");
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 1) return;
  let foreign: string | undefined;
  const isOurs = (line: string) => {
    if (line.includes(data) && line.includes(MARKER)) return true;
    if (line.includes(data)) foreign = line;
    return false;
  };
  const ended = await endOrphan(pid, isOurs, "SIGINT", 5_000);
  if (foreign !== undefined) {
    throw new StartFailure("folderTaken", `Another PostgreSQL (process ${pid}) is using the folder ${data}.`);
  }
  if (ended) return;
  await endSessions(data);
  await writeFile(file, [String(process.pid), ...lines.slice(1)].join("\n"));
}

/**
 * Kills the sessions of a server that was itself killed. They run on for a while and can no longer commit, but hold
 * the shared memory, without which no new server can start.
 */
async function endSessions(data: string): Promise<void> {
  for (const pid of await findByWorkingDirectory(data)) {
    await endOrphan(pid, (line) => line.startsWith("postgres: "), "SIGKILL", 1_000);
  }
}

type ServerFiles = { log: string; port: number; data: string };

/** Waits until postmaster.pid says so (another program may own the port), then for a real connection. */
async function untilReady(child: Child, url: string, files: ServerFiles, collects: boolean): Promise<void> {
  while ((await statusOf(files.data, child.pid)) !== "ready") {
    if (child.exit()) throw await startFailure(files);
    await delay(10);
  }
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query(collects ? "CREATE EXTENSION IF NOT EXISTS pg_stat_statements" : "SELECT 1");
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw damagedFolder(files.data, code === "28P01" ? "the stored password is not the server's" : message);
  } finally {
    await client.end().catch(() => {});
  }
}

async function startFailure(files: ServerFiles): Promise<StartFailure> {
  const reason = await failureReason(files.log);
  if (/could not bind|could not create any TCP/.test(reason)) {
    return new StartFailure("portInUse", `PostgreSQL cannot listen on 127.0.0.1:${files.port}: ${reason}`);
  }
  if (/pre-existing shared memory/.test(reason)) {
    const sentence = `Sessions of a killed server are still using the folder ${files.data}. Try again in a moment.`;
    return new StartFailure("folderTaken", sentence);
  }
  return damagedFolder(files.data, reason);
}
