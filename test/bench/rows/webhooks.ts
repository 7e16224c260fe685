import { randomBytes } from "node:crypto";
import { join } from "node:path";
import Stripe from "stripe";
import { createProvider } from "../../../services/billing/stripe/provider.ts";
import { createIntake } from "../../../services/billing/webhook/intake.ts";
import { createLog } from "../../../services/kit/log.ts";
import { createPool, execute, type Pool } from "../../../services/kit/postgres/db.ts";
import { migrate } from "../../../services/kit/postgres/migrate.ts";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const EVENTS = 2_000;
const AT_ONCE = 8;
const ROUNDS = 4;
const SECRET = "whsec_bench";
const MIGRATIONS = join(import.meta.dirname, "../../../services/billing/migrations");

/** Webhooks that are verified and stored per second, compared with a plain insert of each event; alternating. */
export const webhooks: Bench = {
  names: ["webhooks-stored"],
  run: async (platform) => {
    const database = await scratchDatabase(platform);
    const log = createLog("bench", "error");
    const pool = createPool(database.url, { max: AT_ONCE });
    try {
      await migrate(pool, MIGRATIONS);
      const provider = createProvider({ stripeKey: "sk_test_bench" }, log);
      const receive = createIntake({ pool, provider, secrets: [SECRET], stored: () => {}, log });
      const ratios: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const raw = await timed(makeEvents(), (event) => insertRaw(pool, event));
        const ours = await timed(makeEvents(), ({ payload, signature }) => receive(payload, signature));
        if (round > 0) ratios.push(raw / ours);
      }
      return [{ name: "webhooks-stored", value: median(ratios), unit: "x raw", goal: ">= 0.5" }];
    } finally {
      await pool.end();
      await database.drop();
    }
  },
};

type SignedEvent = { id: string; customer: string; payload: Buffer; signature: string };

/** Returns signed events, each of another customer, as large as an event of a subscription. */
function makeEvents(): SignedEvent[] {
  const created = Math.floor(Date.now() / 1_000);
  return Array.from({ length: EVENTS }, () => {
    const id = `evt_${randomBytes(12).toString("hex")}`;
    const customer = `cus_${randomBytes(8).toString("hex")}`;
    const object = { object: "subscription", customer, metadata: { filling: "x".repeat(4_000) } };
    const event = { id, object: "event", type: "customer.subscription.updated", created, livemode: false };
    const payload = JSON.stringify({ ...event, data: { object } });
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET });
    return { id, customer, payload: Buffer.from(payload), signature };
  });
}

function insertRaw(pool: Pool, { id, customer }: SignedEvent) {
  return execute(
    pool,
    "raw",
    "insert into stripe_events (id, type, created, customer_id) values ($1, 'test', now(), $2)",
    [id, customer],
  );
}

/** Returns how long it takes to store events, several at once, in milliseconds. */
async function timed(
  events: SignedEvent[],
  store: (event: SignedEvent) => Promise<unknown>,
): Promise<number> {
  const left = events.values();
  const started = performance.now();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const event of left) await store(event);
    }),
  );
  return performance.now() - started;
}
