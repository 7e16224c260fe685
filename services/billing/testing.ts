import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { DescMessage } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { BillingService } from "../../proto/gen/berth/billing/v1/billing_pb.ts";
import { InternalService as BillingInternal } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import {
  InternalService as DeployerInternal,
  type ServiceDescription,
} from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService as IdentityInternal } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { type TestStripe, testStripe } from "../../test/support/servers/stripe.ts";
import { newId } from "../kit/ids.ts";
import { createLog } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { readConfig } from "../kit/process/config.ts";
import { notFound } from "../kit/rpc/refusals.ts";
import { openEvents } from "../kit/testing/events.ts";
import { startNeighbours } from "../kit/testing/neighbours.ts";
import { serviceProcesses } from "../kit/testing/service-process.ts";
import { clientAs, migratedDatabase, testKeys } from "../kit/testing/testing.ts";
import { fields } from "./config.ts";
import { start } from "./main.ts";
import { seed } from "./pricing/seed.ts";
import { createProvider } from "./stripe/provider.ts";

type Member = { userId: string; email: string; displayName: string; emailVerified: boolean; role: string };

/** Identity and the deployer as billing sees them, which answer from memory. */
async function startWorld() {
  const accounts = new Map<string, { handle: string; members: Member[] }>();
  const services = new Map<string, ServiceDescription>();
  const described: string[] = [];
  const server = await startNeighbours((router) => {
    router.service(IdentityInternal, {
      listRecipients({ accountId }) {
        const account = accountId === undefined ? undefined : accounts.get(accountId);
        return { accountHandle: account?.handle ?? "", users: account?.members ?? [] };
      },
    });
    router.service(DeployerInternal, {
      describeService({ serviceId }) {
        const found = services.get(serviceId);
        if (!found) throw notFound("service");
        described.push(serviceId);
        return found;
      },
    });
  });
  return { ...server, accounts, services, described };
}

/** Takes webhooks and passes them to billing, as the gateway does. */
async function startWebhookDoor(port: () => number | undefined) {
  const server = createServer(async (request, response) => {
    const payload = await buffer(request);
    const signature = String(request.headers["stripe-signature"] ?? "");
    const to = port();
    try {
      if (to === undefined) throw new Error("billing is not running");
      await clientAs(BillingInternal, to, { kind: "service", id: "gateway" }).receiveWebhook({
        payload,
        signature,
      });
      response.end("{}");
    } catch (error) {
      const refused = error instanceof ConnectError && error.rawMessage.startsWith("The signature");
      response.writeHead(refused ? 400 : 503).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/stripe`,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Billing on a database, a NATS and a simulator of Stripe of its own, seeded, on the simulator's clock, with neighbours
 * that answer from memory. `more` overrides its environment, `clock` (ms) the simulator's clock. `shared` is another's
 * simulator, which reports to both.
 */
export async function startBilling(
  more: Record<string, string> = {},
  clock?: () => number,
  shared?: TestStripe,
) {
  const [database, nats, neighbours] = await Promise.all([migratedDatabase(), testNats(), startWorld()]);
  let port: number | undefined;
  const door = await startWebhookDoor(() => port);
  const stripe = shared ?? (await testStripe({ webhookUrl: door.url }));
  const endpoint =
    shared && (await shared.stripe.webhookEndpoints.create({ url: door.url, enabled_events: ["*"] }));
  const env: Record<string, string> = {
    DATABASE_URL: database.url("billing"),
    NATS_URL: nats.url,
    IDENTITY_URL: neighbours.url,
    DEPLOYER_URL: neighbours.url,
    INTERNAL_KEYS: testKeys.map((key) => key.toString("base64")).join(","),
    PUBLIC_ORIGIN: "https://berth.example.com",
    STRIPE_SECRET_KEY: stripe.key,
    STRIPE_WEBHOOK_SECRETS: endpoint?.secret ?? stripe.webhookSecret,
    STRIPE_API_URL: stripe.url,
    DEFAULT_TIER: "free",
    ...more,
  };
  const logLines: string[] = [];
  const log = createLog("billing", "debug", (line) => void logLines.push(line));
  const now = clock ?? (() => stripe.clock.now() * 1_000);
  const startOne = (other: Record<string, string> = {}) =>
    start(readConfig({ ...env, ...other }, fields), log, now);
  if (env.STRIPE_SECRET_KEY) {
    const stripeInstallation = env.STRIPE_INSTALLATION;
    const stripeTax = env.STRIPE_TAX === "on" ? "on" : "off";
    const at = { stripeKey: stripe.key, stripeUrl: stripe.url, stripeInstallation, stripeTax } as const;
    await seed(createProvider(at, log));
  }
  const running = await startOne();
  port = running.port;
  const pool = createPool(database.url("billing"));
  const events = await openEvents(env.NATS_URL!);
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
    pool,
    nats,
    stripe,
    neighbours,
    logLines,
    /** A second process of the service on the same database. */
    startOne,
    /** Billing's API, as an owner of the account. */
    as: (accountId: string, at = running.port) =>
      clientAs(BillingService, at, {
        id: neighbours.accounts.get(accountId)?.members[0]?.userId ?? "usr_nobody",
        role: "owner",
        accountId,
      }),
    /** Stops the service in this process, so that others are alone. */
    stopOwn,
    /** Starts the service as a process of its own, which a test can kill. Webhooks go to it from then on. */
    async process(other: Record<string, string> = {}) {
      const made = await processes.start(other);
      port = made.port;
      return made;
    },
    /** Where webhooks go; undefined refuses them with 503. */
    deliverTo(to: number | undefined) {
      port = to;
    },
    deadLetters: events.deadLetters,
    /** Returns the events of a kind that billing published about an account, oldest first. */
    published: <S extends DescMessage>(schema: S, accountId: string) =>
      events.kept(`berth.billing.v1.${schema.name}.${accountId}`, schema),
    /** Pays on the provider's page, with a test card. */
    async pay(checkoutUrl: string, card = "4242424242424242", country?: string) {
      const session = new URL(checkoutUrl).pathname.split("/").at(-1);
      const answer = await fetch(`${stripe.url}/_sim/checkout/${session}/complete`, {
        method: "POST",
        body: JSON.stringify({ card, country }),
      });
      if (!answer.ok) throw new Error(`the payment failed: ${await answer.text()}`);
    },
    /** An account with so many members, of whom the first is its owner. */
    account(members = 1) {
      const id = newId("acc");
      const made = Array.from({ length: members }, (_, n) => {
        const userId = newId("usr");
        const name = userId.slice(-10);
        return {
          userId,
          email: `${name}@example.com`,
          displayName: name,
          emailVerified: true,
          role: n === 0 ? "owner" : "reader",
        };
      });
      neighbours.accounts.set(id, { handle: `h${id.slice(-8)}`, members: made });
      return id;
    },
    publish: events.publish,
    stop: async () => {
      await processes.endAll();
      await stopOwn();
      const ended = [events.close(), pool.end(), neighbours.stop(), door.stop()];
      await Promise.all(shared ? ended : [...ended, stripe.stop()]);
      await Promise.all([database.drop(), nats.remove()]);
    },
  };
}

export type TestBilling = Awaited<ReturnType<typeof startBilling>>;
