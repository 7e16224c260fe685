import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { audit } from "../../kit/events/audit.ts";
import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { toUsd } from "../money/nano-usd.ts";
import { deleteSpendLimit, findSpendLimit, putSpendLimit } from "../suspension/limits-sql.ts";
import { isLimitReached } from "../suspension/sql.ts";
import { spendOf } from "../usage/alerts/spend-limit.ts";
import { scheduleAlert } from "../usage/ledger/sql.ts";
import { findPeriod, ratePeriod, type TierOf } from "../usage/read-usage.ts";

type Deps = { pool: Pool; tierOf: TierOf; now: () => number };

export type SpendLimits = ReturnType<typeof createSpendLimits>;

/** Reading and setting what owners want to spend on compute at most (docs/billing.md#spend-limit). */
export function createSpendLimits({ pool, tierOf, now }: Deps) {
  async function read(db: Db, accountId: string) {
    const at = Math.floor(now() / 1_000);
    const limitCents = await findSpendLimit(db, accountId);
    const period = await findPeriod(db, tierOf, accountId, at);
    const spent = spendOf(period, await ratePeriod(db, accountId, period, at));
    return {
      ...(limitCents !== undefined && { limitUsd: limitCents / 100 }),
      spentUsd: toUsd(spent),
      periodStart: timestampFromMs(period.start * 1_000),
      periodEnd: timestampFromMs(period.end * 1_000),
      reached: await isLimitReached(db, accountId, at),
    };
  }

  return {
    get: (accountId: string) => read(pool, accountId),

    /** Sets the limit, or removes it. Services follow within seconds. Throws as `toWholeCents`. */
    set(accountId: string, limitUsd: number | undefined, by: Who) {
      const limitCents = limitUsd === undefined ? undefined : toWholeCents(limitUsd);
      return transaction(pool, async (tx) => {
        if (limitCents === undefined) await deleteSpendLimit(tx, accountId);
        else await putSpendLimit(tx, accountId, limitCents);
        await scheduleAlert(tx, accountId);
        const metadata: Record<string, string> =
          limitCents === undefined ? {} : { limitUsd: (limitCents / 100).toFixed(2) };
        const entry = { service: "billing", accountId, action: "spend_limit.set", target: accountId };
        await audit(tx, by, { ...entry, metadata });
        return read(tx, accountId);
      });
    },
  };
}

/** In dollars. */
const [LEAST, MOST] = [1, 1_000_000];

/** Returns dollars as cents. Throws 422 out_of_range, and 422 not_cents for a fraction of a cent. */
function toWholeCents(limitUsd: number): number {
  if (!(limitUsd >= LEAST && limitUsd <= MOST))
    throw invalid("limitUsd", "out_of_range", `limitUsd must be from ${LEAST} to ${MOST}.`);
  const cents = Math.round(limitUsd * 100);
  if (Math.abs(cents - limitUsd * 100) > 1e-6)
    throw invalid("limitUsd", "not_cents", "limitUsd must have at most two decimals.");
  return cents;
}
