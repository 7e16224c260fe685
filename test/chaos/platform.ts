import { join } from "node:path";
import { choosePorts, makeFolder, takeDataFolder } from "../../deploy/local/data/data-folder.ts";
import { rotateLogs } from "../../deploy/local/data/logs.ts";
import { readSecrets } from "../../deploy/local/data/secrets.ts";
import { findNatsServer } from "../../deploy/local/nats/install.ts";
import { startNats } from "../../deploy/local/nats/nats.ts";
import { stopOnStorageFailure } from "../../deploy/local/nats/storage-check.ts";
import { addonRole, database, prepareDatabase } from "../../deploy/local/postgres/database.ts";
import { startPostgres } from "../../deploy/local/postgres/postgres.ts";
import { startProgram } from "../../deploy/local/processes/program-process.ts";
import { environmentOf, grpcPortOf, programs, roles } from "../../deploy/local/processes/programs.ts";
import type { Running } from "../../deploy/local/processes/running.ts";
import { type Supervised, supervise } from "../../deploy/local/processes/supervise.ts";
import { programsDir } from "../../services/kit/process/program.ts";
import { openProxy, type TcpProxy } from "../../services/kit/testing/proxy.ts";

/** A process that can be killed or stopped; it is restarted when it exits. */
export type Victim = { name: string; pid: () => number | undefined };

export type Platform = Awaited<ReturnType<typeof startPlatform>>;

/**
 * Starts the platform as `npm start` composes it, except that each program reaches the database, NATS and the other
 * services through its own proxies, which can be cut.
 */
export async function startPlatform(dir: string) {
  const { folder, lock } = await takeDataFolder(dir);
  await rotateLogs(folder.logs);
  await makeFolder(folder.deployer);
  const secrets = await readSecrets(folder.dir, [...roles, addonRole], true);
  const services = programs.filter(({ kind }) => kind === "service").map(({ name }) => name);
  const names = ["gateway", "router", "postgres", "nats", ...services, ...services.map(grpcPortOf)];
  const { ports } = await choosePorts(folder, names, {});
  const parts: Supervised<Running>[] = [];
  const victims: Victim[] = [];
  const restarts = new Map<string, number>();

  async function startSupervised<R extends Running>(
    name: string,
    start: (signal: AbortSignal) => Promise<R>,
  ): Promise<R> {
    let pid: number | undefined;
    const part = supervise(
      {
        name,
        start: async (signal) => {
          const running = await start(signal);
          pid = running.pid;
          void running.exited.then(() => {
            pid = undefined;
          });
          return running;
        },
      },
      (line) => line.endsWith(" restarted") && restarts.set(name, (restarts.get(name) ?? 0) + 1),
    );
    parts.unshift(part);
    victims.push({ name, pid: () => pid });
    return part.ready;
  }

  const postgres = await startSupervised("postgres", () =>
    startPostgres({ dir: folder.postgres, port: ports.postgres, durable: true, log: folder.log("postgres") }),
  );
  await prepareDatabase(postgres, roles, secrets, folder.dir);
  const binary = await findNatsServer(programsDir, () => {});
  const nats = await startSupervised("nats", async () => {
    const server = await startNats({ binary, dir: folder.nats, port: ports.nats, log: folder.log("nats") });
    void stopOnStorageFailure(server, folder.nats).catch(() => {});
    return server;
  });

  const proxies = new Map<string, TcpProxy>();
  const proxied = async (name: string, url: string) => {
    const proxy = proxies.get(name) ?? (await openProxy(new URL(url)));
    proxies.set(name, proxy);
    return proxy.of(url);
  };
  const origin = `http://127.0.0.1:${ports.gateway}`;
  const context = {
    secrets,
    ports,
    origin,
    natsUrl: nats.url,
    databaseUrl: postgres.url,
    programsDir,
    deployerDir: folder.deployer,
    appsDir: folder.deployer,
    mail: { url: "", from: "" },
    payments: { key: "", webhookSecrets: "", url: "" },
  };
  for (const program of programs) {
    const { name } = program;
    const env = environmentOf(program, context);
    env.DATABASE_URL = await proxied(`${name} to postgres`, env.DATABASE_URL!);
    env.NATS_URL = await proxied(`${name} to nats`, env.NATS_URL!);
    for (const other of services) {
      const key = `${other.toUpperCase()}_URL`;
      env[key] = (await proxied(`${name} to ${other}`, env[key]!)).replace(/\/$/, "");
    }
    const own = {
      name,
      folder: program.folder,
      env: { ...env, RATE_LIMITS: "off" },
      port: ports[name]!,
      graceMs: 4_000,
    };
    await startSupervised(name, (signal) =>
      startProgram({ ...own, data: folder.dir, log: folder.log(name) }, signal),
    );
  }
  return {
    dir: folder.dir,
    deployerDir: folder.deployer,
    baseUrl: `${origin}/v1`,
    token: secrets.ownerToken,
    natsUrl: nats.url,
    adminUrl: postgres.url(database),
    victims,
    proxies,
    restarts,
    logs: ["postgres", "nats", ...programs.map(({ name }) => name)].map((name) =>
      join(folder.logs, `${name}.log`),
    ),
    async stop() {
      for (const part of parts) await part.stop();
      for (const proxy of proxies.values()) proxy.shut();
      lock.release();
    },
  };
}
