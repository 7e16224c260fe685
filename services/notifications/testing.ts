import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  InternalService as DeployerInternal,
  DeploymentDescriptionSchema,
  type ServiceDescription,
  ServiceDescriptionSchema,
} from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService as IdentityInternal } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { NotificationService } from "../../proto/gen/berth/notifications/v1/notifications_pb.ts";
import { WebhookService } from "../../proto/gen/berth/notifications/v1/webhooks_pb.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { newId } from "../kit/ids.ts";
import { createLog } from "../kit/log.ts";
import { createPool, type Db } from "../kit/postgres/db.ts";
import { readConfig } from "../kit/process/config.ts";
import type { RoleName } from "../kit/rpc/caller-token.ts";
import { notFound } from "../kit/rpc/refusals.ts";
import { openEvents } from "../kit/testing/events.ts";
import { startNeighbours } from "../kit/testing/neighbours.ts";
import { serviceProcesses } from "../kit/testing/service-process.ts";
import { type Mailbox, startMailbox } from "../kit/testing/smtp-server.ts";
import { clientAs, migratedDatabase, testKeys } from "../kit/testing/testing.ts";
import { fields } from "./config.ts";
import { start } from "./main.ts";
import type { Recipient } from "./recipients/directory.ts";

type About = MessageInitShape<typeof ServiceDescriptionSchema>;

/** In-memory stand-ins for identity and the deployer. */
async function startWorld() {
  const users = new Map<string, Recipient>();
  const accounts = new Map<string, { handle: string; roles: Map<string, RoleName> }>();
  const services = new Map<string, ServiceDescription>();
  /** The first account, whose owners are the operators. */
  const operators = { accountId: "" };
  const membersOf = (accountId: string) =>
    [...(accounts.get(accountId)?.roles ?? [])].flatMap(([id, role]) => {
      const user = users.get(id);
      return user ? [{ ...user, role }] : [];
    });
  const server = await startNeighbours((router) => {
    router.service(IdentityInternal, {
      listOperators: () => ({
        accountId: operators.accountId,
        users: membersOf(operators.accountId).filter(({ role }) => role === "owner"),
      }),
      listRecipients({ accountId, userIds }) {
        if (accountId === undefined)
          return { users: userIds.flatMap((id) => users.get(id) ?? []).map((user) => ({ ...user })) };
        return { accountHandle: accounts.get(accountId)?.handle ?? "", users: membersOf(accountId) };
      },
    });
    router.service(DeployerInternal, {
      describeService({ serviceId, version }) {
        const found = services.get(serviceId);
        if (!found) throw notFound("service");
        if (version === undefined) return found;
        const deployment = found.deployment ?? create(DeploymentDescriptionSchema);
        return { ...found, deployment: { ...deployment, version } };
      },
    });
  });
  return { ...server, users, accounts, services, operators };
}

/**
 * Starts notifications on a database, a NATS and a mailbox of its own, with in-memory neighbours and a clock that tests
 * set. `more` overrides its environment; without SMTP it sends no mail.
 */
export async function startNotifications(
  more: Record<string, string> = {},
  mailbox: Parameters<typeof startMailbox>[0] = {},
) {
  const [database, nats, neighbours, box] = await Promise.all([
    migratedDatabase(),
    testNats(),
    startWorld(),
    startMailbox(mailbox) as Promise<Mailbox>,
  ]);
  const clock = { ms: Date.now() };
  const env: Record<string, string> = {
    DATABASE_URL: database.url("notifications"),
    NATS_URL: nats.url,
    IDENTITY_URL: neighbours.url,
    DEPLOYER_URL: neighbours.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(","),
    SECRET_KEYS: testKeys[0]!.toString("base64"),
    WEBHOOKS_PRIVATE: "on",
    SMTP_URL: box.url,
    MAIL_FROM: "Berth <berth@mail.example.com>",
    PUBLIC_ORIGIN: "https://berth.example.com",
    ...more,
  };
  const logLines: string[] = [];
  const log = createLog("notifications", "debug", (line) => void logLines.push(line));
  const startOne = (other: Record<string, string> = {}) =>
    start(readConfig({ ...env, ...other }, fields), log, () => clock.ms);
  const running = await startOne();
  const pool = createPool(database.url("notifications"));
  const events = await openEvents(nats.url);
  let ownRuns = true;
  async function stopOwn(): Promise<void> {
    if (ownRuns) await running.stop();
    ownRuns = false;
  }
  const processes = serviceProcesses(join(import.meta.dirname, "main.ts"), env);

  return {
    env,
    port: running.port,
    manager: events.manager,
    clock,
    pool,
    nats,
    box,
    neighbours,
    logLines,
    /** A second process of the service on the same database. */
    startOne,
    as: (userId: string, port = running.port) =>
      clientAs(NotificationService, port, { id: userId, ip: "203.0.113.7" }),
    /** The webhooks of an account, as an owner of it uses them. */
    webhooks: (accountId: string, port = running.port) =>
      clientAs(WebhookService, port, { id: "usr_owner", accountId, role: "owner", ip: "203.0.113.7" }),
    /** Stops the service in this process, so that others are alone. */
    stopOwn,
    /** Starts the service as a process of its own, which a test can kill. */
    process: processes.start,
    deadLetters: events.deadLetters,
    /** A user known to identity. */
    user(more: Partial<Recipient> = {}): Recipient {
      const userId = newId("usr");
      const name = userId.slice(-10);
      const user = { userId, email: `${name}@example.com`, displayName: name, emailVerified: true, ...more };
      neighbours.users.set(userId, user);
      return user;
    },
    /** An account with these members. */
    account(...members: [Recipient, RoleName][]) {
      const id = newId("acc");
      const roles = new Map(members.map(([{ userId }, role]) => [userId, role]));
      neighbours.accounts.set(id, { handle: `h${id.slice(-8)}`, roles });
      return id;
    },
    /** A service that the deployer describes; returns its id. */
    service(accountId: string, about: About = {}) {
      const id = newId("svc");
      const names = { projectName: "shop", environmentName: "production", serviceName: "web" };
      const ids = { accountId, projectId: "prj_1", environmentId: "env_1" };
      neighbours.services.set(id, create(ServiceDescriptionSchema, { ...ids, ...names, ...about }));
      return id;
    },
    publish: events.publish,
    stop: async () => {
      await processes.endAll();
      await stopOwn();
      await Promise.all([events.close(), pool.end(), neighbours.stop(), box.stop()]);
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}

export type TestNotifications = Awaited<ReturnType<typeof startNotifications>>;

/** Inserts a notification as one statement of its own. Returns its id. */
export async function insertRow(
  db: Db,
  userId: string,
  { visible = true, kind = "deploy.ready" }: { visible?: boolean; kind?: string } = {},
): Promise<string> {
  const id = newId("ntf");
  await db.query(
    `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
       frequency, overridden, mail_state)
     values ($1, $2, '', $3, 'title', 'body', '{}', $1, $4, 'in_app', 'immediate', false, 'none')`,
    [id, userId, kind, visible],
  );
  return id;
}
