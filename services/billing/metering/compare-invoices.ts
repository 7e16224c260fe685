import { Counter } from "prom-client";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { NANO_PER_CENT } from "../money/nano-usd.ts";
import { MAX_DEBIT_SECONDS } from "../usage/closing/correct.ts";
import { insertAdjustment } from "../usage/closing/sql.ts";
import { takeInvoiced } from "./sql.ts";

const BATCH = 100;

const differences = new Counter({
  name: "berth_compute_differences_total",
  help: "Invoices whose amount for compute was not that of the ledger",
});
differences.inc(0);

/**
 * Compares what invoices ask for compute with the ledger. A difference is never written over: it becomes an adjustment of
 * the present period, and an error in the log. Several replicas may do this at once.
 */
export async function compareInvoices({
  pool,
  log,
  now,
}: {
  pool: Pool;
  log: Logger;
  now: () => number;
}): Promise<void> {
  const at = Math.floor(now() / 1_000);
  const differing = await transaction(pool, async (tx) => {
    const compared = await takeInvoiced(tx, BATCH);
    const found = compared.filter(({ invoicedCents, dueCents }) => invoicedCents !== dueCents);
    for (const { accountId, start, end, invoicedCents, dueCents } of found) {
      const amount = BigInt(dueCents - invoicedCents) * NANO_PER_CENT;
      const writtenOff = amount > 0n && end < at - MAX_DEBIT_SECONDS;
      await insertAdjustment(tx, {
        accountId,
        at,
        periodStart: start,
        amount,
        reason: "invoiced",
        writtenOff,
      });
    }
    return found;
  });
  for (const { accountId, invoiceId, invoicedCents, dueCents } of differing) {
    differences.inc();
    log.error(
      { accountId, invoiceId, invoicedCents, dueCents },
      "an invoice asks for other compute than was used",
    );
  }
}
