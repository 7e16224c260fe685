import type Stripe from "stripe";
import { clientOf } from "../../../deploy/stripe-simulator/testing.ts";
import type { Check, Checking } from "./checking.ts";

const OVER = ["canceled", "incomplete_expired"];
const PAID_FOR = ["active", "trialing", "past_due"];

/** A subscription as Berth tells it. */
type Told = { id: string; status: string; cancelAtPeriodEnd: boolean; invoices: ToldInvoice[] };
type ToldInvoice = { id: string; status: string; totalUsd: number };

export const billingAsSimulated: Check = {
  name: "billing believes what the simulator holds",
  async find(checking) {
    const stripe = clientOf(checking.platform.stripeUrl);
    return checking.until(async () => {
      await hasten(checking);
      const { data: customers } = await stripe.customers.list({ limit: 100 });
      const found: string[] = [];
      for (const account of checking.record.buyers) {
        const own = customers.filter(({ metadata }) => metadata.accountId === account);
        if (own.length > 1) found.push(`${account} has ${own.length} customers`);
        found.push(...(await compare(checking, stripe, account, own[0]?.id)));
      }
      return found;
    });
  },
};

async function compare(
  { client, get }: Checking,
  stripe: Stripe,
  account: string,
  customer: string | undefined,
): Promise<string[]> {
  const held = customer ? (await stripe.subscriptions.list({ customer, status: "all" })).data : [];
  const [live, ...others] = held.filter(({ status }) => !OVER.includes(status));
  const answer = await client.send("GET", `/accounts/${account}/subscription`, undefined, { wanted: [404] });
  const told = answer.status === 200 ? (answer.body as Told) : undefined;
  const { plan } = await get<{ plan: { tier: string } }>(`/accounts/${account}`);
  const sold = live && PAID_FOR.includes(live.status);
  const tier = sold
    ? live.items.data.find(({ price }) => price.metadata.kind === "plan")?.price.metadata.tierId
    : "free";
  const differs = (what: string, berth: unknown, simulator: unknown) =>
    berth === simulator ? [] : [`${account}: ${what} is ${berth}, at the simulator ${simulator}`];
  const current = told && !OVER.includes(told.status) ? told : undefined;
  return [
    ...(others.length > 0 ? [`${account} has ${others.length + 1} subscriptions`] : []),
    ...differs("the subscription", current?.id, live?.id),
    ...differs("its status", current?.status, live?.status),
    ...differs(
      "its end",
      current?.cancelAtPeriodEnd,
      live && (live.cancel_at_period_end || live.cancel_at !== null),
    ),
    ...differs("the plan", plan.tier, tier),
    ...(await compareInvoices(stripe, told?.invoices ?? [])),
  ];
}

async function compareInvoices(stripe: Stripe, told: ToldInvoice[]): Promise<string[]> {
  const found: string[] = [];
  for (const { id, status, totalUsd } of told) {
    const held = await stripe.invoices.retrieve(id);
    if (held.status !== status || held.total !== Math.round(totalUsd * 100))
      found.push(
        `${id} is ${status} over ${totalUsd}, at the simulator ${held.status} over ${held.total / 100}`,
      );
  }
  return found;
}

/** Has webhooks and customers tried again at once that wait after a failure. */
async function hasten({ platform, rows }: Checking): Promise<void> {
  await fetch(`${platform.stripeUrl}/_sim/webhooks/flush`, { method: "POST" }).catch(() => {});
  for (const table of ["due_customers", "due_payments"])
    await rows(`update billing.${table} set next_at = now()
      where next_at > now() and (leased_until is null or leased_until < now())`);
  await rows(`update billing.cancellations set next_at = now() where next_at > now() + interval '5 s'
    and step in ('asked', 'uncertain', 'ended', 'refunding')`);
}
