import Stripe from "stripe";
import { InternalService } from "../../../proto/gen/berth/billing/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import type { Cadence } from "../pricing/plans.ts";
import { buy } from "../subscription/testing.ts";
import type { TestBilling } from "../testing.ts";

type Signing = { secret?: string; at?: number };

/** What tests of webhooks do with billing. */
export function webhookScene(billing: TestBilling) {
  const { pool, stripe } = billing;
  const gateway = (port = billing.port) =>
    clientAs(InternalService, port, { kind: "service", id: "gateway" });

  /** Sends a payload as the gateway does, signed by Stripe's own library. `at` is when it was signed (s). */
  async function send(payload: string, { secret = stripe.webhookSecret, at }: Signing = {}, sent = payload) {
    const signature = await Stripe.webhooks.generateTestHeaderStringAsync({
      payload,
      secret,
      ...(at !== undefined && { timestamp: at }),
    });
    await gateway().receiveWebhook({ payload: Buffer.from(sent), signature });
  }

  /** Waits until no customer is due, also of those whom a night has marked for later, and without pauses after failures. */
  async function settled(): Promise<void> {
    await eventually("no customer is due", async () => {
      for (const table of ["due_customers", "due_payments"])
        await pool.query(`update ${table} set next_at = now() where next_at > now()`);
      return (await count("due_payments")) + (await count("due_customers")) === 0;
    });
  }

  async function count(table: string): Promise<number> {
    const { rows } = await pool.query<{ n: number }>(`select count(*)::int as n from ${table}`);
    return rows[0]!.n;
  }

  return {
    gateway,
    send,
    settled,
    count,
    /** Returns an account whose owner has paid on the provider's page. */
    async paid(cadence?: Cadence): Promise<string> {
      const accountId = billing.account();
      await buy(billing, accountId, { cadence });
      return accountId;
    },
    async customerOf(accountId: string): Promise<string> {
      const text = "select customer_id from customers where account_id = $1";
      const { rows } = await pool.query<{ customer_id: string }>(text, [accountId]);
      return rows[0]!.customer_id;
    },
    /** Returns all that is recorded of what the provider knows of an account. */
    async mirrorOf(accountId: string) {
      const read = async (text: string) => (await pool.query<object>(text, [accountId])).rows;
      const [subscriptions, invoices, tier] = await Promise.all([
        read("select * from subscriptions where account_id = $1 order by id"),
        // What refunds are computed of is read while a subscription lives.
        read("select to_jsonb(i) - 'paid' as invoice from invoices i where account_id = $1 order by id"),
        read("select tier from accounts where id = $1"),
      ]);
      return { subscriptions, invoices, tier };
    },
  };
}

/** An event about an object, as Stripe sends it. */
export function eventOf(object: object, change: Partial<Stripe.EventBase> = {}): string {
  const id = `evt_${newId("evt").slice(4)}`;
  const created = Math.floor(Date.now() / 1000);
  const event = { id, object: "event", api_version: Stripe.API_VERSION, created, livemode: false };
  return JSON.stringify({ ...event, type: "customer.updated", data: { object }, ...change });
}

/** Waits until events have been compared at the present time of the provider: no webhook is replaced within 15 minutes. */
export async function eventsCompared({ pool, stripe }: TestBilling): Promise<void> {
  const now = stripe.clock.now();
  await eventually("events are compared", async () => {
    const text =
      "select from reconciliations where name = 'events' and next_at > to_timestamp($1) and done_until >= to_timestamp($1) - interval '15 min'";
    return (await pool.query(text, [now])).rowCount === 1;
  });
}
