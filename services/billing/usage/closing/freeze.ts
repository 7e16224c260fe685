import type { Logger } from "../../../kit/log.ts";
import { attempt, type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { splitCents, toCents } from "../../money/nano-usd.ts";
import { creditOf } from "../../pricing/compute.ts";
import { isBeyondAllowance } from "../../suspension/beyond-allowance.ts";
import { findPeriod, type PeriodUsage, type PlannedPeriod, ratePeriod, type TierOf } from "../read-usage.ts";
import { recordOwed } from "./owed.ts";
import { findOwedFrom } from "./owed-sql.ts";
import * as sql from "./sql.ts";

/** How long after its end a period is frozen: within the hour that the payment provider waits for usage. */
export const FREEZE_AFTER_SECONDS = 45 * 60;

/** After how long an account is tried again that could not be frozen: until then it holds up no other. */
const RETRY_SECONDS = 5 * 60;

type Deps = { pool: Pool; log: Logger; tierOf: TierOf; now: () => number };

/**
 * Freezes all periods that ended 45 minutes ago, each once: what came until then is in its statement, and what comes
 * later corrects it. Several replicas may do this at once. The signal ends it between two accounts.
 */
export async function freezePeriods(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await transaction(deps.pool, (tx) => freezeOne(tx, deps))));
}

/** Freezes the next period of an account that is due. Returns false when none is. */
async function freezeOne(tx: Tx, deps: Deps): Promise<boolean> {
  const at = Math.floor(deps.now() / 1_000);
  const account = await sql.takeAccountToFreeze(tx, at);
  if (!account) return false;
  const { accountId, frozenUntil } = account;
  const failure = await attempt(tx, () => freeze(tx, deps, account, at));
  if (failure === undefined) return true;
  deps.log.error({ err: failure, accountId }, "the usage of an account cannot be frozen; it is tried again");
  await sql.setFrozen(tx, accountId, frozenUntil, at + RETRY_SECONDS);
  return true;
}

async function freeze(
  tx: Tx,
  { log, tierOf }: Deps,
  account: sql.AccountToFreeze,
  at: number,
): Promise<void> {
  const { accountId, frozenUntil } = account;
  const period = await findPeriod(tx, tierOf, accountId, frozenUntil);
  const due = period.end + FREEZE_AFTER_SECONDS;
  if (due > at) return void (await sql.setFrozen(tx, accountId, frozenUntil, due));
  await writeStatement(tx, log, accountId, period, at);
  await sql.setFrozen(tx, accountId, period.end, period.end);
}

async function writeStatement(tx: Tx, log: Logger, accountId: string, period: PlannedPeriod, now: number) {
  const usage = await ratePeriod(tx, accountId, period, now);
  const { rated, adjustment } = usage;
  if (!period.billed && rated.services.length === 0) return;
  const { accrued, allowance, due } = rated;
  const hadPlan = (await findOwedFrom(tx, accountId, period)) !== undefined;
  if (isBeyondAllowance(period.tier, due) && !hadPlan)
    log.error({ accountId, cents: Number(toCents(due)) }, "a free account used more than the allowance");
  const inputs = await sql.digestSegments(tx, accountId, period);
  const dueCents = toCents(due);
  const lines = statementLines(usage);
  const { start, end, tier, billed } = period;
  const credit = toCents(creditOf(tier));
  const creditCents = dueCents < credit ? dueCents : credit;
  const amounts = { accrued, allowance, adjustment, dueCents, creditCents };
  const written = await sql.insertStatement(tx, {
    ...{ accountId, start, end, tier, billed, inputs },
    ...{ ...amounts, lines, now },
  });
  if (!billed && written > 0) await recordOwed(tx, accountId, period, now);
  const left = accrued - allowance + adjustment - due;
  if (billed && left !== 0n)
    await sql.insertAdjustment(tx, {
      accountId,
      at: end,
      periodStart: start,
      amount: left,
      reason: "carried",
    });
}

/** Returns a line for each service, and for what else the total is made of. */
function statementLines({ rated, rows, adjustment }: PeriodUsage): sql.StatementLine[] {
  const names = new Map(rows.map((row) => [row.serviceId, row]));
  const carried = rated.due - (rated.accrued - rated.allowance + adjustment);
  const others = [
    { type: "adjustment", accrued: adjustment, allowance: 0n },
    { type: "carried", accrued: carried, allowance: 0n },
  ].filter(({ accrued }) => accrued !== 0n);
  const services = rated.services.map((service) => {
    const { serviceName, projectName } = names.get(service.serviceId)!;
    return { ...service, serviceName, projectName };
  });
  const lines = [...services, ...others];
  const cents = splitCents(lines.map(({ accrued, allowance }) => accrued - allowance));
  return lines.map((line, index) => ({
    ...line,
    accrued: String(line.accrued),
    allowance: String(line.allowance),
    cents: String(cents[index]),
  }));
}
