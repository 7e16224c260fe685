import { setTimeout as delay } from "node:timers/promises";
import { isLoopback } from "../../services/kit/network/own-origin.ts";
import { programsDir } from "../../services/kit/process/program.ts";
import { buildConsole } from "./console.ts";
import { placeApps } from "./data/apps-folder.ts";
import {
  choosePorts,
  type DataFolder,
  isFresh,
  LOOPBACK,
  type MovedPort,
  makeFolder,
  requirePort,
  resetDataFolder,
} from "./data/data-folder.ts";
import type { LocalInfo } from "./data/local-info.ts";
import { rotateLogs } from "./data/logs.ts";
import { choosePublicAddresses } from "./data/public-addresses.ts";
import { readSecrets, type Secrets } from "./data/secrets.ts";
import { StartFailure } from "./failure.ts";
import { tryGroups } from "./groups.ts";
import { startMailCapture } from "./mail/capture.ts";
import { findNatsServer } from "./nats/install.ts";
import { startNats } from "./nats/nats.ts";
import { stopOnStorageFailure } from "./nats/storage-check.ts";
import type { PaymentSettings } from "./payments.ts";
import { addonRole, prepareDatabase } from "./postgres/database.ts";
import { startPostgres } from "./postgres/postgres.ts";
import { httpGet } from "./processes/http-get.ts";
import type { Running } from "./processes/running.ts";
import { createParts } from "./programs/parts.ts";
import { endOrphanedPrograms, startProgram, urlOn } from "./programs/program-process.ts";
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
} from "./programs/programs.ts";
import type { Display } from "./terminal/display.ts";
import type { Options } from "./terminal/options.ts";
import { tryWalls } from "./walls.ts";

export type Platform = {
  /**
   * Starts everything; returns the content of `local.json`, the port of the app router, which ports moved, if it is the
   * first start, and why apps have no walls if they have none.
   */
  start(): Promise<{
    info: LocalInfo;
    listen: string;
    router: number;
    moved: MovedPort[];
    fresh: boolean;
    noWalls: string | undefined;
    noLimits: string | undefined;
  }>;
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
      STRIPE_API_URL: url = "",
      STRIPE_INSTALLATION: installation = "",
    } = process.env;
    if (key) return { settings: { key, webhookSecrets: webhookSecrets ?? "", url, installation } };
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
      const at = { dir: folder.nats, port: ports.nats, log: folder.log("nats") };
      const server = await startNats({ binary, ...at, report: display.line });
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
      host: kind === "gateway" ? context.listen : LOOPBACK,
      port: context.ports[name] as number,
      data: folder.dir,
      log: folder.log(name),
      graceMs: GRACE_MS[kind],
    };
    return parts.start(kind, name, (signal) => startProgram(options, signal));
  }

  async function start() {
    const { listen } = options;
    if (options.port !== undefined) await requirePort(options.port, options.listen);
    await endOrphanedPrograms(
      programs.map((program) => program.folder),
      folder.dir,
    );
    if (options.reset) await resetDataFolder(folder);
    await rotateLogs(folder.logs);
    await makeFolder(folder.deployer);
    const appsDir = await placeApps(folder, display.line);
    const walls = await tryWalls(folder.dir, appsDir);
    const groups = tryGroups();
    const { publicUrl, appsDomain } = await choosePublicAddresses(folder, options);
    const behindProxy = publicUrl !== undefined || appsDomain !== undefined;
    if (publicUrl === undefined && !isLoopback(listen)) throw new StartFailure("usage", withoutUrl(listen));
    const fresh = await isFresh(folder);
    const secrets = await readSecrets(folder.dir, [...roles, addonRole], fresh);
    const { ports, moved } = await choosePorts(folder, portNames, usualPorts, {
      requested: options.port,
      listen,
      behindProxy,
    });
    const origin = urlOn(listen, ports.gateway as number);
    const [[postgres, nats], paying] = await allOrFirstFailure([
      startServers(ports, secrets),
      startPayments(origin, ports.stripe as number, secrets),
      buildConsole(display.line),
    ] as const);
    const sending = await startMail(ports, secrets);
    const context: PlatformContext = {
      secrets,
      ports,
      origin: publicUrl ?? origin,
      listen,
      appsDomain,
      behindProxy,
      natsUrl: nats.url,
      databaseUrl: postgres.url,
      dataDir: folder.dir,
      deployerDir: folder.deployer,
      appsDir,
      walls,
      groups,
      programsDir,
      mail: sending,
      payments: paying.settings,
    };
    const started = await allOrFirstFailure(programs.map((program) => startOne(program, context)));
    const gateway = started[programs.findIndex(({ kind }) => kind === "gateway")] as Running;
    const baseUrl = origin + API_PREFIX;
    const { ownerToken } = secrets;
    const accountId = await firstAccount({ baseUrl, token: ownerToken, gateway, signal: parts.stopping });
    const [mailUrl, checkoutUrl] = [sending.page, paying.pageUrl];
    const info = {
      origin,
      baseUrl,
      ...(publicUrl && { publicUrl }),
      ...(appsDomain && { appsDomain }),
      ownerEmail: OWNER_EMAIL,
      ownerToken,
      accountId,
      ...(mailUrl && { mailUrl }),
      ...(checkoutUrl && { checkoutUrl }),
      pid: process.pid,
    };
    return {
      info,
      listen,
      router: ports.router as number,
      moved,
      fresh,
      noWalls: walls.missing,
      noLimits: groups.missing,
    };
  }

  async function stop(): Promise<void> {
    await parts.stop();
    await Promise.all([mail?.stop(), simulator?.stop()]);
  }

  return { start, stop, kill: parts.kill };
}

const withoutUrl = (listen: string) =>
  `--listen ${listen} needs --public-url, the URL at which others reach Berth: its answers and mails contain it. ` +
  "Berth on one machine does not isolate apps as a cluster does (docs/one-machine-proxy.md#walls).";

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

const usualPorts = { gateway: 4000, router: 4001 };

/** Waits for all; rejects with the first failure, and ignores those after it. */
function allOrFirstFailure<T extends readonly Promise<unknown>[]>(promises: T) {
  for (const promise of promises) promise.catch(() => {});
  return Promise.all(promises);
}

type FirstAccount = { baseUrl: string; token: string; gateway: Running; signal: AbortSignal };

/**
 * Returns the id of the owner's first account: the oldest that is theirs. The token is sent while the gateway that proved
 * itself still runs: after that, the port is anybody's.
 *
 * @throws StartFailure `serviceFailed`
 */
async function firstAccount({ baseUrl, token, gateway, signal }: FirstAccount): Promise<string> {
  const deadline = Date.now() + 15_000;
  let runs = true;
  void gateway.exited.then(() => {
    runs = false;
  });
  let last = "the gateway exited";
  while (runs && Date.now() < deadline && !signal.aborted) {
    try {
      const id = await oldestAccount(baseUrl, token);
      if (id !== undefined) return id;
      last = "it does not list one";
    } catch (error) {
      last = (error as Error).message;
    }
    await delay(50);
  }
  throw new StartFailure(
    "serviceFailed",
    `The account of the owner was not found at ${baseUrl}/accounts: ${last}.`,
  );
}

type AccountsPage = { data: { id: string; myRole: string }[]; page: { nextCursor?: string } };

/** Accounts are listed newest first, so the oldest is the last of the last page. */
async function oldestAccount(baseUrl: string, token: string): Promise<string | undefined> {
  let oldest: string | undefined;
  let cursor = "";
  do {
    const url = `${baseUrl}/accounts?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`;
    const { status, body } = await httpGet(url, { authorization: `Bearer ${token}` });
    if (status !== 200) throw new Error(`it answers ${status}`);
    const { data, page }: AccountsPage = JSON.parse(body);
    oldest = data.filter(({ myRole }) => myRole === "owner").at(-1)?.id ?? oldest;
    cursor = page.nextCursor ?? "";
  } while (cursor !== "");
  return oldest;
}
