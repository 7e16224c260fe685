import { join } from "node:path";
import { AccountService, SessionService } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InvitationService } from "../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { PasswordService } from "../../proto/gen/berth/identity/v1/passwords_pb.ts";
import { connectBus } from "../kit/events/bus.ts";
import { startConsumer } from "../kit/events/consumer.ts";
import { startRelay } from "../kit/events/outbox.ts";
import type { Logger } from "../kit/log.ts";
import { startMailer } from "../kit/mail/mail.ts";
import { createPool } from "../kit/postgres/db.ts";
import { migrate } from "../kit/postgres/migrate.ts";
import { createCursors } from "../kit/postgres/paging.ts";
import { main } from "../kit/process/process.ts";
import { serve } from "../kit/process/server.ts";
import { startTelemetry } from "../kit/telemetry.ts";
import { accountService } from "./accounts/account-service.ts";
import { auditHandlers } from "./audit/audit-handlers.ts";
import { bootstrap } from "./bootstrap/bootstrap.ts";
import { type Config, fields, firstOwnerOf, linkSettings } from "./config.ts";
import { invitationService } from "./invitations/invitation-service.ts";
import { createLinks } from "./mail/links.ts";
import { createMailContents } from "./mail/mail-contents.ts";
import { passwordService } from "./passwords/password-service.ts";
import { createPasswordCheck } from "./passwords/passwords.ts";
import { sessionService } from "./sign-in/session-service.ts";
import { sweep } from "./sweep.ts";

const SWEEP_MS = 15 * 60_000;

/**
 * Starts identity: database first (tried for a minute), then the first owner, then the server. `now`
 * is the clock of expiry, in milliseconds.
 */
export async function start(config: Config, log: Logger, now: () => number = Date.now) {
  const owner = firstOwnerOf(config);
  const { mail, origin } = linkSettings(config);
  const telemetry = await startTelemetry("identity", config.otlpUrl);
  const pool = createPool(config.databaseUrl, { name: "identity", timeouts: config });
  await migrate(pool, join(import.meta.dirname, "migrations"));
  if (owner) await bootstrap(pool, owner, log, now());
  const bus = connectBus(config.natsUrl, "identity", log);
  const cursors = createCursors(config.internalKeys);
  const passwords = await createPasswordCheck();
  const links = createLinks(config.internalKeys, origin);
  const mails = mail !== undefined;
  const server = await serve({
    host: config.host,
    port: config.port,
    grpcPort: config.grpcPort,
    keys: config.internalKeys,
    log,
    services: [AccountService, SessionService, InvitationService, PasswordService],
    routes: (router) => {
      router.service(AccountService, accountService({ pool, cursors, now }));
      router.service(SessionService, sessionService({ pool, cursors, now, passwords }));
      router.service(InvitationService, invitationService({ pool, cursors, now, links, mails }));
      router.service(PasswordService, passwordService({ pool, now, passwords, mails }));
    },
    answers: pool,
    ready: async () => (await pool.query("select 1")).rowCount === 1,
  });
  const mailer =
    mail && startMailer({ pool, log, settings: mail, compose: createMailContents({ pool, links, now }) });
  const relay = startRelay({ url: config.databaseUrl, bus, log });
  const auditLog = startConsumer({
    bus,
    pool,
    log,
    name: "identity-audit",
    from: "*",
    handlers: auditHandlers,
  });
  const sweeping = setInterval(() => {
    sweep(pool, new Date(now())).catch((error) => log.warn({ err: error }, "sweep failed"));
  }, SWEEP_MS);
  return {
    port: server.port,
    grpcPort: server.grpcPort,
    stop: async () => {
      clearInterval(sweeping);
      await server.stop();
      await mailer?.stop();
      await auditLog.stop();
      await relay.stop();
      await bus.close();
      await pool.end();
      await telemetry.stop();
    },
  };
}

if (import.meta.main) await main("identity", fields, start);
