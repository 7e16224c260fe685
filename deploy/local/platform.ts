import { setTimeout as delay } from "node:timers/promises";
import { programsDir } from "../../services/kit/process/program.ts";
import {
  choosePorts,
  type DataFolder,
  isFresh,
  makeFolder,
  requirePort,
  resetDataFolder,
} from "./data/data-folder.ts";
import { rotateLogs } from "./data/logs.ts";
import { readSecrets, type Secrets } from "./data/secrets.ts";
import { findNatsServer } from "./nats/install.ts";
import { startNats } from "./nats/nats.ts";
import { endWhenStorageFailed } from "./nats/storage-check.ts";
import { addonRole, prepareDatabase } from "./postgres/database.ts";
import { startPostgres } from "./postgres/postgres.ts";
import { httpGet } from "./processes/http-get.ts";
import { endLeftoverPrograms, startProgram } from "./processes/program-process.ts";
import {
  environmentOf,
  grpcPortOf,
  ownerEmail,
  type Program,
  programs,
  roles,
  type Surroundings,
} from "./processes/programs.ts";
import { type Kept, keepRunning, type Running } from "./processes/supervise.ts";
import type { Display } from "./terminal/display.ts";
import { StartFailure } from "./terminal/failure.ts";
import type { Options } from "./terminal/options.ts";
import type { LocalInfo } from "./terminal/summary.ts";

export type Platform = {
  /** Start everything; gives what `local.json` shall hold, and the port of the app router. */
  start(): Promise<{ info: LocalInfo; router: number }>;
  /** Stop in order: gateway, services, NATS, PostgreSQL; within `STOP_MS` whatever happens. */
  stop(): Promise<void>;
  kill(): void;
};

/** The longest an orderly stop may take; what still runs then is killed. */
const STOP_MS = 9_000;
/** Shares of it, for the gateway and for the services. */
const GRACE_MS = { gateway: 2_000, service: 4_500 };

/** The whole platform on a data folder that this process holds. */
export function createPlatform(options: Options, folder: DataFolder, display: Display): Platform {
  const stopping = new AbortController();
  // In the order in which they stop.
  const kept: Record<"gateway" | "service" | "nats" | "postgres", Kept<Running>[]> = {
    gateway: [],
    service: [],
    nats: [],
    postgres: [],
  };

  async function startPart<R extends Running>(
    kind: keyof typeof kept,
    name: string,
    start: (signal: AbortSignal) => Promise<R>,
  ): Promise<R> {
    if (stopping.signal.aborted) throw new Error("stopped");
    display.begin(name);
    const part = keepRunning({ name, start }, display.line);
    kept[kind].push(part);
    const running = await part.ready;
    display.ready(name);
    return running;
  }

  async function startServers(ports: Record<string, number>, secrets: Secrets) {
    const log = folder.log("postgres");
    const postgres = startPart("postgres", "postgres", () =>
      startPostgres({ dir: folder.postgres, port: ports.postgres, durable: true, log }),
    ).then(async (server) => {
      await prepareDatabase(server, roles, secrets, folder.dir);
      return server;
    });
    const nats = startPart("nats", "nats", async () => {
      const note = (text: string) => display.note("nats", text);
      const binary = await findNatsServer(programsDir, note, stopping.signal);
      const server = await startNats({ binary, dir: folder.nats, port: ports.nats, log: folder.log("nats") });
      void endWhenStorageFailed(server, folder.nats).catch(() => {});
      return server;
    });
    return allOrFirstFailure([postgres, nats] as const);
  }

  function startOne(program: Program, around: Surroundings): Promise<Running> {
    const { name, folder: place, kind } = program;
    const own = {
      name,
      folder: place,
      env: environmentOf(program, around),
      port: around.ports[name] as number,
      data: folder.dir,
      log: folder.log(name),
      graceMs: GRACE_MS[kind],
    };
    return startPart(kind, name, (signal) => startProgram(own, signal));
  }

  return {
    async start() {
      if (options.port !== undefined) await requirePort(options.port);
      await endLeftoverPrograms(
        programs.map((program) => program.folder),
        folder.dir,
      );
      if (options.reset) await resetDataFolder(folder);
      await rotateLogs(folder.logs);
      await makeFolder(folder.deployer);
      const secrets = await readSecrets(folder.dir, [...roles, addonRole], await isFresh(folder));
      const ports = await choosePorts(folder, portNames, usualPorts(options.port));
      const [postgres, nats] = await startServers(ports, secrets);
      const origin = `http://127.0.0.1:${ports.gateway}`;
      const around: Surroundings = {
        secrets,
        ports,
        origin,
        natsUrl: nats.url,
        databaseUrl: postgres.url,
        deployerDir: folder.deployer,
        programsDir,
      };
      await allOrFirstFailure(programs.map((program) => startOne(program, around)));
      const baseUrl = `${origin}/v1`;
      const { ownerToken } = secrets;
      const accountId = await firstAccount(baseUrl, ownerToken, stopping.signal);
      const info = { origin, baseUrl, ownerEmail, ownerToken, accountId, pid: process.pid };
      return { info, router: ports.router as number };
    },

    async stop() {
      stopping.abort();
      const killer = setTimeout(() => this.kill(), STOP_MS);
      for (const parts of Object.values(kept)) await Promise.all(parts.map((part) => part.stop()));
      clearTimeout(killer);
    },

    kill() {
      stopping.abort();
      for (const part of Object.values(kept).flat()) part.kill();
    },
  };
}

const portNames = [
  "gateway",
  "router",
  "postgres",
  "nats",
  ...programs.filter(({ kind }) => kind === "service").flatMap(({ name }) => [name, grpcPortOf(name)]),
];

function usualPorts(asked: number | undefined): Record<string, number> {
  const gateway = asked ?? 4000;
  return { gateway, router: gateway + 1 };
}

/** Wait for all; as soon as one fails, fail with that, and let the others end as they may. */
function allOrFirstFailure<T extends readonly Promise<unknown>[]>(promises: T) {
  for (const promise of promises) promise.catch(() => {});
  return Promise.all(promises);
}

/** The account that identity made for the owner. @throws StartFailure `serviceFailed` */
async function firstAccount(baseUrl: string, token: string, signal: AbortSignal): Promise<string> {
  const deadline = Date.now() + 15_000;
  let last = "";
  while (Date.now() < deadline && !signal.aborted) {
    try {
      const { status, body } = await httpGet(`${baseUrl}/accounts`, { authorization: `Bearer ${token}` });
      const id = status === 200 ? (JSON.parse(body) as { data: { id: string }[] }).data[0]?.id : undefined;
      if (id !== undefined) return id;
      last = status === 200 ? "it lists no account" : `it answers ${status}`;
    } catch (error) {
      last = (error as Error).message;
    }
    await delay(50);
  }
  throw new StartFailure(
    "serviceFailed",
    `The owner's account was not found at ${baseUrl}/accounts: ${last}.`,
  );
}
