import type Stripe from "stripe";
import type { Logger } from "../../../kit/log.ts";
import { type Pool, transaction } from "../../../kit/postgres/db.ts";
import { markPayments } from "../../due/sql.ts";
import { readPaidInvoices } from "../../invoices/paid-invoices.ts";
import { computeItemsOf, isCompute, readLines } from "../../invoices/subscribed-lines.ts";
import { currentPeriod, reportBeforeEnd } from "../../metering/report-before-end.ts";
import { addTaxes } from "../../refunds/add-taxes.ts";
import { issueRefund } from "../../refunds/issue-refund.ts";
import { annualRefunds, fullRefunds } from "../../refunds/refund.ts";
import { listRefunds, planRefunds, type RefundRow, setRefundMade } from "../../refunds/sql.ts";
import { isRefused, type Provider, refusedWith, timeOf } from "../../stripe/provider.ts";
import { isAnnual, meteredOf } from "../asked.ts";
import type { Settlement } from "../settlement.ts";
import * as sql from "../sql.ts";
import { endOf, endSubscription } from "./end-subscription.ts";
import type { NextStep } from "./next-step.ts";
import { reportRefund } from "./report-refund.ts";
import { settleInvoices, voidInvoices } from "./settle-invoices.ts";

export type Deps = { pool: Pool; provider: Provider; log: Logger };

/**
 * Does a step of a cancellation, and records that it is done; to be called under the account's lock. Throws 502
 * payment_provider_unavailable.
 */
export async function perform(
  deps: Deps,
  cancellation: sql.Cancellation,
  step: NextStep,
  settlement: Settlement,
): Promise<void> {
  const { pool } = deps;
  const { subscriptionId } = cancellation;
  switch (step.do) {
    case "end":
      return end(deps, cancellation, step.subscription, settlement);
    case "record-end":
      return void (await sql.setEnded(pool, subscriptionId, new Date(step.at * 1_000)));
    case "forget":
      return void (await sql.deleteCancellation(pool, subscriptionId));
    case "plan-refunds":
      return plan(deps, cancellation, step, settlement);
    case "make-refunds":
      return makeRefunds(deps, cancellation);
  }
}

async function end(
  deps: Deps,
  { subscriptionId, accountId, kind }: sql.Cancellation,
  subscription: Stripe.Subscription,
  settlement: Settlement,
): Promise<void> {
  const { pool, provider, log } = deps;
  if (kind === "duplicate")
    log.warn({ subscription: subscriptionId }, "an account had subscribed twice: the second one ends");
  else await report(deps, subscription, accountId, settlement);
  const ended = await provider.ask((stripe) => endSubscription(stripe, subscriptionId, kind));
  await sql.setEnded(pool, subscriptionId, new Date(endOf(ended) * 1_000));
}

/**
 * Reports compute until now, because the end makes the last invoices final. That the provider refuses a report does not
 * keep a subscription from ending.
 */
async function report(
  { pool, provider, log }: Deps,
  subscription: Stripe.Subscription,
  accountId: string,
  settlement: Settlement,
): Promise<void> {
  const computeItems = computeItemsOf(subscription);
  const drafts = await provider.ask((stripe) =>
    stripe.invoices.list({ subscription: subscription.id, status: "draft", limit: 100 }),
  );
  const lines = await provider.ask((stripe) =>
    Promise.all(drafts.data.map((draft) => readLines(stripe, draft))),
  );
  const drafted = lines
    .flat()
    .filter((line) => isCompute(line, computeItems))
    .map(({ period }) => period);
  const periods = [...drafted, currentPeriod(subscription) ?? []].flat();
  try {
    await reportBeforeEnd({ pool, provider }, meteredOf(subscription, accountId), periods, timeOf(drafts));
  } catch (error) {
    const code = refusedWith(error);
    if (code === undefined) throw error;
    settlement.warnings.push(toWarning(code));
    log.error({ accountId, subscription: subscription.id, code }, REPORT_REFUSED);
  }
}

const REPORT_REFUSED =
  "the payment provider refused the last report of compute: the last invoice asks for what was reported before";

const toWarning = (code: string) =>
  `The payment provider refused the last report of compute (${code}). The last invoice asks for compute as it was reported before. The operator of this installation has to check its meter and its clock.`;

/** Settles what is open, and records what is to be refunded before anything is. */
async function plan(
  deps: Deps,
  cancellation: sql.Cancellation,
  { subscription, at, review }: NextStep & { do: "plan-refunds" },
  settlement: Settlement,
): Promise<void> {
  const { pool, provider } = deps;
  const { subscriptionId, kind } = cancellation;
  const isDuplicate = kind === "duplicate";
  if (isDuplicate) await voidInvoices(deps, subscriptionId);
  else await settleInvoices(deps, subscription, at, settlement);
  const isRefundable = isDuplicate || isAnnual(subscription);
  const paid = isRefundable ? await provider.ask((stripe) => readPaidInvoices(stripe, subscription)) : [];
  const planned = isDuplicate ? fullRefunds(paid) : annualRefunds(paid, at);
  // What was made before the provider refused another one stays as it was planned.
  const made = new Map(paid.flatMap(({ id, refundNote: note }) => (note ? [[id, note]] : [])));
  const left = planned.filter(({ invoiceId }) => !made.has(invoiceId));
  const refunds = await addTaxes(provider, left, paid);
  const disputed = refunds.length > 0 ? paid.flatMap(({ disputedPayments }) => disputedPayments) : [];
  const waits = review && refunds.length > 0;
  await transaction(pool, async (tx) => {
    for (const [invoice, note] of made) await setRefundMade(tx, subscriptionId, invoice, note);
    await planRefunds(tx, subscriptionId, refunds);
    if (disputed.length > 0) {
      await sql.moveCancellation(tx, subscriptionId, "ended", "disputed");
      // When they are read, it is seen that the bank has decided, also if it has by now.
      await markPayments(tx, disputed);
      return reportRefund(tx, cancellation, "under_review", "disputed");
    }
    await sql.moveCancellation(tx, subscriptionId, "ended", waits ? "review" : "refunding");
    if (waits) await reportRefund(tx, cancellation, "under_review");
  });
}

async function makeRefunds(deps: Deps, cancellation: sql.Cancellation): Promise<void> {
  const { pool } = deps;
  const { subscriptionId } = cancellation;
  for (const refund of await listRefunds(pool, subscriptionId))
    if (refund.creditNoteId === null) await makeRefund(deps, subscriptionId, refund);
  await transaction(pool, async (tx) => {
    await sql.moveCancellation(tx, subscriptionId, "refunding", "done");
    await reportRefund(tx, cancellation, "refunded");
  });
}

async function makeRefund(
  { pool, provider }: Deps,
  subscriptionId: string,
  refund: RefundRow,
): Promise<void> {
  try {
    const note = await issueRefund({ pool, provider }, subscriptionId, refund);
    await setRefundMade(pool, subscriptionId, refund.invoiceId, note);
  } catch (error) {
    // What can be given back may be less by now.
    if (isRefused(error)) await sql.moveCancellation(pool, subscriptionId, "refunding", "ended");
    throw error;
  }
}
