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
import { startMailCapture } from "./mail/capture.ts";
import { findNatsServer } from "./nats/install.ts";
import { startNats } from "./nats/nats.ts";
import { stopOnStorageFailure } from "./nats/storage-check.ts";
import type { PaymentSettings } from "./payments.ts";
import { addonRole, prepareDatabase } from "./postgres/database.ts";
import { startPostgres } from "./postgres/postgres.ts";
import { httpGet } from "./processes/http-get.ts";
import { createParts } from "./processes/parts.ts";
import { endOrphanedPrograms, startProgram } from "./processes/program-process.ts";
import {
  API_PREFIX,
  environmentOf,
  grpcPortOf,
  MAIL_FROM,
  OWNER_EMAIL,
  type PlatformContext,
  type Program,
  programs,
  roles,
} from "./processes/programs.ts";
import type { Running } from "./processes/running.ts";
import type { Display } from "./terminal/display.ts";
import { StartFailure } from "./terminal/failure.ts";
import type { Options } from "./terminal/options.ts";
import type { LocalInfo } from "./terminal/summary.ts";

export type Platform = {
  /** Starts everything; returns the content of `local.json`, and the port of the app router. */
  start(): Promise<{ info: LocalInfo; router: number }>;
  /** Stops in order: gateway, services, NATS, PostgreSQL; takes at most 9 s. */
  stop(): Promise<void>;
  kill(): void;
};

type Payments = { settings: PaymentSettings; pageUrl?: string };

/** The part of a stop's time that a program has before it is killed. */
const GRACE_MS = { gateway: 2_000, service: 4_500 };

/** The whole platform on a data folder that this process holds. */
export function createPlatform(options: Options, folder: DataFolder, display: Display): Platform {
  const parts = createParts(display);

  let mail: { stop: () => Promise<void> } | undefined;
  let simulator: { stop: () => Promise<void> } | undefined;

  /** Returns how mail is sent: as the environment says, or to a page of this machine. */
  async function startMail(ports: Record<string, number>, secrets: Secrets) {
    const { SMTP_URL: url, MAIL_FROM: from } = process.env;
    if (url || from) return { url: url ?? "", from: from ?? "" };
    const at = { smtp: ports.smtp as number, page: ports.mail as number };
    const capture = await startMailCapture({ dir: folder.mail, secret: secrets.internalKeys, ports: at });
    mail = capture;
    return { url: capture.smtpUrl, from: MAIL_FROM, page: capture.pageUrl };
  }

  /** Returns how payments are taken: by Stripe, as the environment says, or by a simulator. */
  async function startPayments(origin: string, port: number, secrets: Secrets): Promise<Payments> {
    const {
      STRIPE_SECRET_KEY: key,
      STRIPE_WEBHOOK_SECRETS: webhookSecrets,
      STRIPE_API_URL: url,
    } = process.env;
    if (key) return { settings: { key, webhookSecrets: webhookSecrets ?? "", url: url ?? "" } };
    const { startSimulatedPayments } = await import("./payments.ts");
    const secret = secrets.internalKeys;
    const started = await startSimulatedPayments({ dir: folder.stripe, secret, port, origin });
    simulator = started;
    return started;
  }

  async function startServers(ports: Record<string, number>, secrets: Secrets) {
    const log = folder.log("postgres");
    const postgres = parts
      .start("postgres", "postgres", () =>
        startPostgres({ dir: folder.postgres, port: ports.postgres, durable: true, log }),
      )
      .then(async (server) => {
        await prepareDatabase(server, roles, secrets, folder.dir);
        return server;
      });
    const nats = parts.start("nats", "nats", async () => {
      const note = (text: string) => display.note("nats", text);
      const binary = await findNatsServer(programsDir, note, parts.stopping);
      const server = await startNats({ binary, dir: folder.nats, port: ports.nats, log: folder.log("nats") });
      void stopOnStorageFailure(server, folder.nats).catch(() => {});
      return server;
    });
    return allOrFirstFailure([postgres, nats] as const);
  }

  function startOne(program: Program, context: PlatformContext): Promise<Running> {
    const { name, kind } = program;
    const options = {
      name,
      folder: program.folder,
      env: environmentOf(program, context),
      port: context.ports[name] as number,
      data: folder.dir,
      log: folder.log(name),
      graceMs: GRACE_MS[kind],
    };
    return parts.start(kind, name, (signal) => startProgram(options, signal));
  }

  async function start() {
    if (options.port !== undefined) await requirePort(options.port);
    await endOrphanedPrograms(
      programs.map((program) => program.folder),
      folder.dir,
    );
    if (options.reset) await resetDataFolder(folder);
    await rotateLogs(folder.logs);
    await makeFolder(folder.deployer);
    const secrets = await readSecrets(folder.dir, [...roles, addonRole], await isFresh(folder));
    const ports = await choosePorts(folder, portNames, preferredPorts(options.port));
    const origin = `http://127.0.0.1:${ports.gateway}`;
    const [[postgres, nats], paying] = await allOrFirstFailure([
      startServers(ports, secrets),
      startPayments(origin, ports.stripe as number, secrets),
    ] as const);
    const sending = await startMail(ports, secrets);
    const context: PlatformContext = {
      secrets,
      ports,
      origin,
      natsUrl: nats.url,
      databaseUrl: postgres.url,
      deployerDir: folder.deployer,
      programsDir,
      mail: sending,
      payments: paying.settings,
    };
    await allOrFirstFailure(programs.map((program) => startOne(program, context)));
    const baseUrl = origin + API_PREFIX;
    const { ownerToken } = secrets;
    const accountId = await firstAccount(baseUrl, ownerToken, parts.stopping);
    const [mailUrl, checkoutUrl] = [sending.page, paying.pageUrl];
    const info = {
      origin,
      baseUrl,
      ownerEmail: OWNER_EMAIL,
      ownerToken,
      accountId,
      ...(mailUrl && { mailUrl }),
      ...(checkoutUrl && { checkoutUrl }),
      pid: process.pid,
    };
    return { info, router: ports.router as number };
  }

  async function stop(): Promise<void> {
    await parts.stop();
    await Promise.all([mail?.stop(), simulator?.stop()]);
  }

  return { start, stop, kill: parts.kill };
}

const portNames = [
  "gateway",
  "router",
  "postgres",
  "nats",
  "smtp",
  "mail",
  "stripe",
  ...programs.filter(({ kind }) => kind === "service").flatMap(({ name }) => [name, grpcPortOf(name)]),
];

function preferredPorts(requested: number | undefined): Record<string, number> {
  const gateway = requested ?? 4000;
  return { gateway, router: gateway + 1 };
}

/** Waits for all; rejects with the first failure, and ignores those after it. */
function allOrFirstFailure<T extends readonly Promise<unknown>[]>(promises: T) {
  for (const promise of promises) promise.catch(() => {});
  return Promise.all(promises);
}

/** Returns the id of the account that identity made for the owner. @throws StartFailure `serviceFailed` */
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
