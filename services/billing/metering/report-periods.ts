import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { NANO_PER_CENT, toCents } from "../money/nano-usd.ts";
import { creditCents } from "../pricing/compute.ts";
import type { Provider } from "../stripe/provider.ts";
import { REPORT_PERIODS, toCause } from "../tasks.ts";
import { frozenAmount } from "../usage/closing/compute-periods.ts";
import { FREEZE_AFTER_SECONDS } from "../usage/closing/freeze.ts";
import { insertAdjustment } from "../usage/closing/sql.ts";
import { ratePeriod } from "../usage/read-usage.ts";
import { compareInvoices } from "./compare-invoices.ts";
import { grantCredit, reportAmount } from "./provider-usage.ts";
import * as sql from "./sql.ts";

const HOUR = 3_600;
const MINUTE = 60;
/** How long no other replica reports on a period; longer than the requests may take. */
const LEASE_SECONDS = 300;
/** After how long a report on a period is tried again that is not its last. */
const RUNNING_RETRY_SECONDS = 10 * MINUTE;
/** Closer than this to its end, what a period has come to by now is not reported: the last report must be the final one. */
const LAST_SECONDS = 5 * MINUTE;
/** How long the ledger is waited for that is about to freeze a period. */
const SOON_SECONDS = 5;
/** How old the time of a report may be. */
const MAX_AGE_SECONDS = 35 * 86_400;

type Deps = { pool: Pool; provider: Provider; log: Logger; now: () => number };

/**
 * Reports to the provider what compute has come to (docs/billing.md#closing-a-period), until it is stopped: every hour,
 * and a last time once the ledger has frozen the period. `now` is in milliseconds.
 */
export function startMetering(deps: Deps) {
  const work = async (signal: AbortSignal) => {
    await reportPeriods(deps, signal);
    await compareInvoices(deps);
  };
  return startTask(REPORT_PERIODS, work, { log: deps.log, toLog: toCause });
}

/** Reports on the periods that are due, each once among several replicas. */
export async function reportPeriods(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const at = Math.floor(deps.now() / 1_000);
    const taking = { now: at, until: at + LEASE_SECONDS, endedBefore: at - FREEZE_AFTER_SECONDS };
    const period = await sql.takePeriod(deps.pool, taking);
    if (!period) return;
    try {
      await report(deps, period, at);
    } catch (error) {
      const { subscriptionId, reportedCents: cents } = period;
      deps.log.warn({ subscriptionId, cause: causeOf(error) }, "a period of compute could not be reported");
      await sql.setReported(deps.pool, period, { cents, next: at + retrySeconds(period, at) });
    }
  }
}

/**
 * Returns after how many seconds a report is tried again that failed: soon while the invoice can still ask for what it
 * says, then more and more rarely.
 */
export function retrySeconds({ end }: { end: number }, at: number): number {
  const late = at - end - FREEZE_AFTER_SECONDS;
  const pause = late < 0 ? Math.min(-late, RUNNING_RETRY_SECONDS) : Math.min(Math.floor(late / 15), HOUR);
  return Math.max(MINUTE, pause);
}

async function report(deps: Deps, period: sql.TakenPeriod, at: number): Promise<void> {
  const frozenAt = period.end + FREEZE_AFTER_SECONDS;
  if (at < period.end - LAST_SECONDS) {
    const cents = await reportRunning(deps, period, at);
    await sql.setReported(deps.pool, period, { cents, next: Math.min(at + HOUR, frozenAt) });
  } else if (at < frozenAt) {
    await sql.setReported(deps.pool, period, { cents: period.reportedCents, next: frozenAt });
  } else await close(deps, period, at);
}

/** Reports what a period has come to by now, unless that was reported. Returns it, in cents. */
async function reportRunning(
  { pool, provider }: Pick<Deps, "pool" | "provider">,
  period: sql.TakenPeriod,
  at: number,
): Promise<number> {
  const { rated } = await ratePeriod(pool, period.accountId, period, at);
  const cents = Number(toCents(rated.due));
  if (cents !== (period.reportedCents ?? 0)) await reportAmount(provider, period, { cents, at });
  return cents;
}

/** Reports what a period came to, and grants what the plan pays of it; both before the invoice is final. */
async function close(deps: Deps, period: sql.TakenPeriod, at: number): Promise<void> {
  const { pool, provider, log } = deps;
  const { subscriptionId, accountId, start, end, reportedCents, invoicedCents } = period;
  const isTooOld = end <= at - MAX_AGE_SECONDS;
  const cents = await frozenAmount(pool, accountId, end);
  if (cents !== undefined && invoicedCents === null && (await sql.hasNoInvoice(pool, period)))
    return carryOver(pool, period, cents, at);
  // What a period that is too old used is paid as far as the invoice asks for it, once that is known.
  const asked = isTooOld ? invoicedCents : cents;
  if (cents === undefined || asked === undefined || asked === null) {
    const pause = at < end + FREEZE_AFTER_SECONDS + HOUR ? SOON_SECONDS : HOUR;
    await sql.setReported(pool, period, { cents: reportedCents, next: at + pause });
    return;
  }
  await grantCredit(deps, period, Math.min(cents, asked, creditCents(period.tier)));
  if (isTooOld) log.error({ subscriptionId, start, cents }, "a period of compute is too old to be reported");
  else await reportAmount(provider, period, { cents, at: end - 1 });
  await sql.setClosed(pool, period, cents);
}

/** Has the next subscription charge a period that no invoice asks for, less what the plan pays of it. */
function carryOver(pool: Pool, period: sql.TakenPeriod, cents: number, at: number): Promise<void> {
  const { accountId, start, tier } = period;
  const amount = BigInt(Math.max(0, cents - creditCents(tier))) * NANO_PER_CENT;
  return transaction(pool, async (tx) => {
    if ((await sql.setClosed(tx, period, cents, true)) === 0 || amount === 0n) return;
    await insertAdjustment(tx, { accountId, at, periodStart: start, amount, reason: "uninvoiced" });
  });
}
