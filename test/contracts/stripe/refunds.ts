import { Stripe } from "stripe";
import { expect, test } from "vitest";
import { addPayer, invoicesOf, itemOf, type Scenario, subscribe } from "./harness.ts";

/** Returns an annual subscription that was canceled on its first day, and the invoice that was paid for it. */
async function cancelAnnual(scenario: Scenario) {
  const { stripe, prices } = scenario;
  const customer = await addPayer(scenario);
  const { id, items } = await subscribe(scenario, customer.id, { cadence: "annual" });
  const subscription = await stripe.subscriptions.cancel(id, { invoice_now: true, prorate: false });
  const invoices = await invoicesOf(stripe, id);
  const invoice = invoices.find(({ billing_reason }) => billing_reason === "subscription_create")!;
  const plan = items.data.find(({ price }) => price.id === prices.of("plan", "pro", "annual"))!;
  const line = invoice.lines.data.find(
    ({ parent }) => parent?.subscription_item_details?.subscription_item === plan.id,
  )!;
  return { subscription, invoice, line };
}

type Paid = Awaited<ReturnType<typeof cancelAnnual>>;

const ofInvoice = ({ invoice }: Paid, amount: number) => ({ invoice: invoice.id, amount });
const ofLine = ({ invoice, line }: Paid, amount: number) => ({
  invoice: invoice.id,
  lines: [{ type: "invoice_line_item" as const, invoice_line_item: line.id, amount }],
});

/** An annual subscription is canceled, and a part of what was paid given back. */
export function describeRefunds(scenario: () => Scenario): void {
  test("canceling at once gives nothing back by itself", async () => {
    const { subscription, invoice } = await cancelAnnual(scenario());
    expect(subscription.status).toBe("canceled");
    expect(subscription.ended_at).not.toBeNull();
    expect(itemOf(subscription, scenario().prices.compute)).toBeDefined();
    expect(invoice).toMatchObject({
      status: "paid",
      amount_paid: 20_000,
      post_payment_credit_notes_amount: 0,
    });
    const { data } = await scenario().stripe.creditNotes.list({ invoice: invoice.id });
    expect(data).toEqual([]);
  });

  test.each([
    ["a line", ofLine],
    ["an invoice", ofInvoice],
  ])("a credit note for a part of %s gives money back, once", async (_, toNote) => {
    const { stripe } = scenario();
    const paid = await cancelAnnual(scenario());
    const { invoice } = paid;
    const asked = { ...toNote(paid, 16_000), refund_amount: 16_000 };
    const preview = await stripe.creditNotes.preview(asked);
    expect(preview).toMatchObject({ total: 16_000, post_payment_amount: 16_000, pre_payment_amount: 0 });
    const create = () =>
      stripe.creditNotes.create(
        { ...asked, reason: "order_change", email_type: "none" },
        { idempotencyKey: `refund:${invoice.id}` },
      );
    const note = await create();
    expect(note).toMatchObject({ status: "issued", total: 16_000, reason: "order_change" });
    expect(note.refunds).toHaveLength(1);
    expect((await create()).id).toBe(note.id);
    const refund = await stripe.refunds.retrieve(String(note.refunds[0]!.refund));
    expect(refund).toMatchObject({ amount: 16_000, status: "succeeded" });
    const { data } = await stripe.creditNotes.list({ invoice: invoice.id });
    expect(data.map(({ id }) => id)).toEqual([note.id]);
    expect(await stripe.invoices.retrieve(invoice.id)).toMatchObject({
      status: "paid",
      post_payment_credit_notes_amount: 16_000,
    });
  });

  test("no more is given back than was paid, and all of a note has a place to go", async () => {
    const { stripe } = scenario();
    const paid = await cancelAnnual(scenario());
    const noteOf = (amount: number) => ofInvoice(paid, amount);
    const refused = [
      { ...noteOf(20_001), refund_amount: 20_001 },
      { ...noteOf(16_000), refund_amount: 15_000 },
    ];
    for (const params of refused)
      await expect(stripe.creditNotes.create(params)).rejects.toThrow(
        Stripe.errors.StripeInvalidRequestError,
      );
    await stripe.creditNotes.create({ ...noteOf(16_000), refund_amount: 15_000, credit_amount: 1_000 });
    await expect(stripe.creditNotes.create({ ...noteOf(4_001), refund_amount: 4_001 })).rejects.toThrow(
      Stripe.errors.StripeInvalidRequestError,
    );
  });
}
