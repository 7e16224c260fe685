import type Stripe from "stripe";
import type { Logger } from "../../../kit/log.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { SETTLES } from "../../invoices/paid-invoices.ts";
import {
  computeItemsOf,
  isCompute,
  isUnused,
  kindOfLines,
  partsOf,
  preTaxCents,
  readLines,
} from "../../invoices/subscribed-lines.ts";
import { type CreditLine, readCredit, toCreditLines, toNoteLines } from "../../invoices/taxes.ts";
import { makeOnce } from "../../stripe/make-once.ts";
import { isRefused, type Provider } from "../../stripe/provider.ts";
import type { Settlement } from "../settlement.ts";

type Deps = { pool: Pool; provider: Provider; log: Logger };
type Ended = Pick<Stripe.Subscription, "id" | "items">;

/**
 * Settles the invoices that a subscription left when it ended at a time (s), the oldest first, and adds what that charges
 * and credits to the settlement. What they ask for plan and members of a period that was not over is not owed: a draft is
 * not made final for it, and an open invoice is credited. The rest is collected, because the provider collects nothing by
 * itself from then on. Done again, it changes nothing.
 */
export async function settleInvoices(
  deps: Deps,
  subscription: Ended,
  at: number,
  settlement: Settlement,
): Promise<void> {
  // Both are listed first: a draft that is made final is settled as such.
  const drafts = await listInvoices(deps, subscription.id, "draft");
  const open = await listInvoices(deps, subscription.id, "open");
  for (const invoice of drafts) await settleDraft(deps, { subscription, invoice, at }, settlement);
  for (const invoice of open) await settleOpen(deps, { subscription, invoice, at }, settlement);
}

/** Ends what a second subscription left open: nothing of it is owed. Done again, it changes nothing. */
export async function voidInvoices(deps: Deps, subscription: string): Promise<void> {
  const { provider } = deps;
  for (const { id } of await listInvoices(deps, subscription, "draft")) await finalize(deps, id);
  for (const { id } of await listInvoices(deps, subscription, "open"))
    await provider.ask((stripe) => stripe.invoices.voidInvoice(id));
}

/** Returns a subscription's invoices with a status, the oldest first. */
async function listInvoices(
  { provider }: Deps,
  subscription: string,
  status: "draft" | "open",
): Promise<Stripe.Invoice[]> {
  const all = await provider.ask((stripe) =>
    stripe.invoices.list({ subscription, status, limit: 100 }).autoPagingToArray({ limit: 10_000 }),
  );
  return all.toReversed();
}

type Left = { subscription: Ended; invoice: Stripe.Invoice; at: number };

async function settleDraft(deps: Deps, { subscription, invoice, at }: Left, settlement: Settlement) {
  const { provider } = deps;
  const lines = await provider.ask((stripe) => readLines(stripe, invoice));
  const computeItems = computeItemsOf(subscription);
  const { unusedCents, hasOthers } = partsOf(lines, computeItems, at);
  const hasCompute = lines.some((line) => isCompute(line, computeItems) && line.amount > 0);
  if (unusedCents > 0) {
    settlement.credits.push({ kind: "renewal", cents: unusedCents });
    // A renewal and nothing else: it stays a draft for ever.
    if (!hasOthers && !hasCompute) return void (await drop(deps, invoice));
    if (invoice.automatic_tax.enabled) await reduceTaxed(deps, { subscription, invoice, at }, lines);
    else if (!lines.some(isReduction)) await reduce(deps, { subscription, invoice, at }, unusedCents);
  }
  if ((await finalize(deps, invoice.id)) !== "open") return;
  await collect(deps, invoice.id, kindOfRest(lines, computeItems, at), settlement);
}

/** Whether a line takes what is not owed off an invoice, which was a draft then. */
const isReduction = ({ metadata }: Stripe.InvoiceLineItem) => metadata[SETTLES] !== undefined;

function isUnusedLine(line: Stripe.InvoiceLineItem, computeItems: ReadonlySet<string>, at: number): boolean {
  return partsOf([line], computeItems, at).unusedCents !== 0;
}

/** Returns what an invoice is for without what is not owed of it. */
export function kindOfRest(lines: Stripe.InvoiceLineItem[], computeItems: ReadonlySet<string>, at: number) {
  return kindOfLines(
    lines.filter((line) => !isReduction(line) && !isUnusedLine(line, computeItems, at)),
    computeItems,
  );
}

async function drop({ provider }: Deps, { id, auto_advance }: Stripe.Invoice): Promise<void> {
  if (auto_advance) await provider.ask((stripe) => stripe.invoices.update(id, { auto_advance: false }));
}

/** Takes what is not owed off a draft that asks for other things too. */
async function reduce(deps: Deps, { subscription, invoice }: Left, cents: number): Promise<void> {
  const customer = customerOf(invoice);
  await makeOnce(deps, `reduce:${invoice.id}`, (stripe, options) =>
    stripe.invoiceItems.create(
      {
        customer,
        invoice: invoice.id,
        amount: -cents,
        currency: "usd",
        description: "Plan and members: canceled before they were charged",
        metadata: { [SETTLES]: subscription.id },
      },
      options,
    ),
  );
}

/**
 * Takes what is not owed off a draft with tax, each line on its own, so that the tax of each is taken off to the cent. A
 * line that was taken off before a crash is found by its metadata.
 */
async function reduceTaxed(
  deps: Deps,
  { subscription, invoice, at }: Left,
  lines: Stripe.InvoiceLineItem[],
): Promise<void> {
  const computeItems = computeItemsOf(subscription);
  const taken = new Set(lines.map(({ metadata }) => metadata[TAKES_OFF]));
  for (const line of lines.filter((one) => isUnused(one, computeItems, at) && !taken.has(one.id)))
    await makeOnce(deps, `reduce:${invoice.id}:${line.id}`, (stripe, options) =>
      stripe.invoiceItems.create(
        {
          customer: customerOf(invoice),
          invoice: invoice.id,
          amount: -preTaxCents(line),
          currency: "usd",
          tax_behavior: "exclusive",
          description: `Canceled before it was charged: ${line.description ?? "plan and members"}`,
          metadata: { [SETTLES]: subscription.id, [TAKES_OFF]: line.id },
        },
        options,
      ),
    );
}

/** Names the line of a draft that another takes off. */
const TAKES_OFF = "takesOff";

/**
 * Returns what an open invoice asks for plan and members of a period that is not over, with tax, and the lines of a
 * credit note for it, if it has tax.
 */
export async function readUnused(
  stripe: Stripe,
  invoice: Pick<Stripe.Invoice, "id" | "automatic_tax">,
  lines: Stripe.InvoiceLineItem[],
  { computeItems, at }: { computeItems: ReadonlySet<string>; at: number },
): Promise<{ cents: number; lines?: CreditLine[] }> {
  // A draft that was reduced, and made final before a crash, asks only for what is owed.
  if (lines.some(isReduction)) return { cents: 0 };
  const unused = lines.filter((line) => isUnused(line, computeItems, at));
  // One that asks for nothing else is void: no line of it is credited.
  if (!invoice.automatic_tax.enabled || unused.length === lines.length)
    return { cents: partsOf(lines, computeItems, at).unusedCents };
  return readCredit(stripe, invoice.id, toCreditLines(unused));
}

async function settleOpen(deps: Deps, left: Left, settlement: Settlement): Promise<void> {
  const { subscription, invoice, at } = left;
  const { provider } = deps;
  const lines = await provider.ask((stripe) => readLines(stripe, invoice));
  const computeItems = computeItemsOf(subscription);
  const made = await findCredit(deps, left);
  const unused = made
    ? { cents: 0 }
    : await provider.ask((stripe) => readUnused(stripe, invoice, lines, { computeItems, at }));
  const { creditCents, owedCents } = creditOf(invoice, unused.cents);
  if (!made && creditCents > 0 && owedCents <= 0) {
    await provider.ask((stripe) => stripe.invoices.voidInvoice(invoice.id));
    settlement.credits.push({ kind: "open_invoice", cents: invoice.amount_remaining });
    return;
  }
  if (made || creditCents > 0) {
    const note = made ?? (await credit(deps, left, creditCents, unused.lines));
    settlement.credits.push(
      { kind: "open_invoice", cents: note.pre_payment_amount },
      { kind: "balance", cents: note.post_payment_amount },
    );
  }
  await collect(deps, invoice.id, kindOfRest(lines, computeItems, at), settlement);
}

/** Returns how much of an open invoice is credited, and what stays owed, also as far as the balance paid it. Pure. */
export function creditOf(
  {
    total,
    pre_payment_credit_notes_amount: pre,
    post_payment_credit_notes_amount: post,
  }: Pick<Stripe.Invoice, "total" | "pre_payment_credit_notes_amount" | "post_payment_credit_notes_amount">,
  unusedCents: number,
): { creditCents: number; owedCents: number } {
  const left = total - pre - post;
  const creditCents = Math.max(0, Math.min(unusedCents, left));
  return { creditCents, owedCents: left - creditCents };
}

/** Returns the credit note that was made before a crash. */
async function findCredit({ provider }: Deps, { subscription, invoice }: Left) {
  const { data } = await provider.ask((stripe) =>
    stripe.creditNotes.list({ invoice: invoice.id, limit: 100 }),
  );
  return data.find(({ metadata, status }) => metadata?.[SETTLES] === subscription.id && status !== "void");
}

/** Credits what is not owed of an open invoice; what the balance paid of it goes back there. */
function credit(
  deps: Deps,
  { subscription, invoice }: Left,
  cents: number,
  lines: CreditLine[] | undefined,
): Promise<Stripe.CreditNote> {
  const toBalance = Math.max(0, cents - invoice.amount_remaining);
  return makeOnce(deps, `settle:${invoice.id}:${cents}`, (stripe, options) =>
    stripe.creditNotes.create(
      {
        invoice: invoice.id,
        ...(lines ? { lines: toNoteLines(lines) } : { amount: cents }),
        ...(toBalance > 0 && { credit_amount: toBalance }),
        reason: "order_change",
        email_type: "none",
        metadata: { [SETTLES]: subscription.id },
      },
      options,
    ),
  );
}

/** Finalizes a draft, and returns the status then: one without an amount is paid at once. */
async function finalize({ provider }: Deps, id: string): Promise<Stripe.Invoice["status"]> {
  const { status } = await provider.ask((stripe) =>
    stripe.invoices.finalizeInvoice(id, { auto_advance: false }),
  );
  return status;
}

/**
 * Collects an invoice. One that is declined stays open: its owner can pay it on its page, and the provider tries again as
 * it does with others, which it stopped with the end of the subscription.
 */
async function collect(deps: Deps, id: string, kind: ReturnType<typeof kindOfRest>, settlement: Settlement) {
  const { provider, log } = deps;
  const { status, amount_remaining: cents } = await provider.ask((stripe) => stripe.invoices.retrieve(id));
  if (status !== "open") return;
  settlement.charges.push({ kind, cents, estimated: false });
  try {
    await makeOnce(deps, `pay:${id}`, (stripe, options) => stripe.invoices.pay(id, {}, options));
  } catch (error) {
    if (!isRefused(error)) throw error;
    log.warn({ invoice: id }, "the last invoice of a canceled subscription is not paid");
    await provider.ask((stripe) => stripe.invoices.update(id, { auto_advance: true }));
  }
}

function customerOf({ customer }: Stripe.Invoice): string {
  return typeof customer === "string" ? customer : (customer?.id ?? "");
}
