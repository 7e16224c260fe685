import { choosePorts, makeFolder, takeDataFolder } from "../../../deploy/local/data/data-folder.ts";
import { rotateLogs } from "../../../deploy/local/data/logs.ts";
import { readSecrets } from "../../../deploy/local/data/secrets.ts";
import { findNatsServer } from "../../../deploy/local/nats/install.ts";
import { startNats } from "../../../deploy/local/nats/nats.ts";
import { stopOnStorageFailure } from "../../../deploy/local/nats/storage-check.ts";
import { startSimulatedPayments } from "../../../deploy/local/payments.ts";
import { addonRole, database, prepareDatabase } from "../../../deploy/local/postgres/database.ts";
import { startPostgres } from "../../../deploy/local/postgres/postgres.ts";
import type { Running } from "../../../deploy/local/processes/running.ts";
import { type Supervised, supervise } from "../../../deploy/local/processes/supervise.ts";
import { startProgram } from "../../../deploy/local/programs/program-process.ts";
import {
  environmentOf,
  grpcPortOf,
  MAIL_FROM,
  programs,
  roles,
} from "../../../deploy/local/programs/programs.ts";
import { programsDir } from "../../../services/kit/process/program.ts";
import { openProxy, type TcpProxy } from "../../../services/kit/testing/proxy.ts";
import { QUIET } from "../../support/launched.ts";
import { type Platform, readinessOf, type Victim } from "./platform.ts";

type Options = {
  dir: string;
  /** Where mail goes. */
  smtpUrl: string;
  /** What the environment of each program has besides. */
  extra?: Record<string, string>;
};

/** The ports of a data folder, by the names that the launcher gives them. */
const services = programs.filter(({ kind }) => kind === "service").map(({ name }) => name);
const portNames = [
  "gateway",
  "router",
  "postgres",
  "nats",
  "stripe",
  ...services,
  ...services.map(grpcPortOf),
];

/**
 * Starts the platform as `npm start` composes it, except that each program reaches the database, NATS, the other
 * services and mail through its own proxies, which can be cut. The launcher can go on with its data folder.
 */
export async function startComposed({ dir, smtpUrl, extra = {} }: Options): Promise<Platform> {
  const { folder, lock } = await takeDataFolder(dir);
  await rotateLogs(folder.logs);
  await makeFolder(folder.deployer);
  const secrets = await readSecrets(folder.dir, [...roles, addonRole], true);
  const { ports } = await choosePorts(folder, portNames, {});
  const supervisor = createSupervisor();

  const postgres = await supervisor.start("postgres", () =>
    startPostgres({ dir: folder.postgres, port: ports.postgres, durable: true, log: folder.log("postgres") }),
  );
  await prepareDatabase(postgres, roles, secrets, folder.dir);
  const binary = await findNatsServer(programsDir, () => {});
  const nats = await supervisor.start("nats", async () => {
    const server = await startNats({ binary, dir: folder.nats, port: ports.nats, log: folder.log("nats") });
    void stopOnStorageFailure(server, folder.nats).catch(() => {});
    return server;
  });
  const origin = `http://127.0.0.1:${ports.gateway}`;
  const simulator = await startSimulatedPayments({
    dir: folder.stripe,
    secret: secrets.internalKeys,
    port: ports.stripe!,
    origin,
  });

  const { proxies, proxied } = createProxies();
  const context = {
    ...{ secrets, ports, origin, programsDir, natsUrl: nats.url, databaseUrl: postgres.url },
    ...{ listen: "127.0.0.1", appsDomain: undefined, behindProxy: false },
    dataDir: folder.dir,
    deployerDir: folder.deployer,
    appsDir: folder.deployer,
    walls: { hidden: [], missing: "faults are looked for in what apps do, not in what they see" },
    groups: { missing: "faults are looked for in what apps do, not in what they use" },
    mail: { url: smtpUrl, from: MAIL_FROM },
    payments: simulator.settings,
  };
  for (const program of programs) {
    const { name } = program;
    const env = environmentOf(program, context);
    for (const [variable, other] of neighboursOf(name))
      if (env[variable]) env[variable] = await proxied(`${name} to ${other}`, env[variable]);
    const own = {
      ...{
        name,
        folder: program.folder,
        host: "127.0.0.1",
        port: ports[name]!,
        data: folder.dir,
        log: folder.log(name),
      },
      env: { ...env, ...QUIET, ...extra },
      graceMs: 4_000,
    };
    await supervisor.start(name, (signal) => startProgram(own, signal));
  }
  return {
    ...{ dir: folder.dir, deployerDir: folder.deployer, logs: folder.logs },
    ...{ origin, baseUrl: `${origin}/v1`, token: secrets.ownerToken },
    ...{ natsUrl: nats.url, adminUrl: postgres.url(database), stripeUrl: simulator.settings.url },
    ...{ victims: supervisor.victims, proxies, restarts: supervisor.restarts },
    isReady: readinessOf(ports),
    async stop() {
      await supervisor.stop();
      await simulator.stop();
      for (const proxy of proxies.values()) proxy.shut();
      lock.release();
    },
  };
}

/** Returns which environment variables hold the address of whom. */
function neighboursOf(name: string): [string, string][] {
  return [
    ["DATABASE_URL", "postgres"],
    ["NATS_URL", "nats"],
    ["SMTP_URL", "mail"],
    ...services
      .filter((other) => other !== name)
      .map((other): [string, string] => [`${other.toUpperCase()}_URL`, other]),
  ];
}

function createProxies() {
  const proxies = new Map<string, TcpProxy>();
  return {
    proxies,
    async proxied(name: string, url: string): Promise<string> {
      const proxy = proxies.get(name) ?? (await openProxy(new URL(url)));
      proxies.set(name, proxy);
      return proxy.of(url).replace(/\/$/, "");
    },
  };
}

/** Restarts what exits, and knows the process of each part. */
function createSupervisor() {
  const parts: Supervised<Running>[] = [];
  const victims: Victim[] = [];
  const restarts = new Map<string, number>();
  return {
    victims,
    restarts,
    start<R extends Running>(name: string, start: (signal: AbortSignal) => Promise<R>): Promise<R> {
      let pid: number | undefined;
      const remembering = async (signal: AbortSignal) => {
        const running = await start(signal);
        pid = running.pid;
        void running.exited.then(() => {
          pid = undefined;
        });
        return running;
      };
      const count = (line: string) => {
        if (line.endsWith(" restarted")) restarts.set(name, (restarts.get(name) ?? 0) + 1);
      };
      const part = supervise({ name, start: remembering }, count);
      parts.unshift(part);
      victims.push({ name, pid: () => pid });
      return part.ready;
    },
    async stop() {
      for (const part of parts) await part.stop();
    },
  };
}
