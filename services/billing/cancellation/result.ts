import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { cashOf, taxOf } from "../refunds/refund.ts";
import type { RefundRow } from "../refunds/sql.ts";
import type { Credit, MadeRefund, Settlement } from "./settlement.ts";
import type { Cancellation } from "./sql.ts";

/** How a subscription ends, and all that follows from it, as the API shows it. */
export type Ending = ReturnType<typeof toEnding>;

export type CancelResult = Ending & { status: "canceled" };

/** What an ending is made of; `refunds` as far as they are planned, `asOf` in seconds. */
type Outcome = Settlement & {
  accessUntil: string;
  refunds: MadeRefund[];
  /** Whether refunds that are not made wait, for staff or for the provider. */
  underReview: boolean;
  asOf: number;
};

/** Returns when a subscription that ends with its period ends. */
export function atPeriodEnd({ currentPeriodEnd }: { currentPeriodEnd: Date }) {
  return { accessUntil: currentPeriodEnd.toISOString().replace(".000Z", "Z") };
}

/** Until cards show a refund, at most. */
const ARRIVAL_DAYS = 10;

const usd = (cents: number) => cents / 100;
const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);

/** Returns an ending as the API shows it. Pure. */
export function toEnding(outcome: Outcome) {
  const { accessUntil, refunds, underReview, asOf, charges, warnings } = outcome;
  const [made, waiting] = underReview ? split(refunds) : [refunds, []];
  const cash = cashOf(made);
  const charged = sum(charges.map(({ cents }) => cents));
  const tax = taxOf(made);
  const refund = {
    amountUsd: usd(cash),
    ...(tax > 0 && { taxUsd: usd(tax) }),
    currency: "usd",
    estimatedArrivalDays: ARRIVAL_DAYS,
  };
  return {
    accessUntil,
    ...(cash > 0 && { refund }),
    refundUnderReview: underReview,
    asOf: timestampFromMs(asOf * 1_000),
    charges: charges.map(({ kind, cents, at, estimated }) => ({
      kind,
      amountUsd: usd(cents),
      ...(at !== undefined && { at: timestampFromMs(at * 1_000) }),
      estimated,
    })),
    credits: credits(outcome, made).map(({ kind, cents }) => ({ kind, amountUsd: usd(cents) })),
    underReviewUsd: usd(sum(waiting.map(({ amountCents }) => amountCents))),
    netUsd: usd(charged - cash),
    warnings,
  };
}

function split(refunds: MadeRefund[]): [MadeRefund[], MadeRefund[]] {
  const isMade = ({ creditNoteId }: MadeRefund) => Boolean(creditNoteId);
  return [refunds.filter(isMade), refunds.filter((one) => !isMade(one))];
}

/** Returns the credits with what refunds give to the balance, each kind once. */
function credits({ credits: given }: Settlement, refunds: MadeRefund[]): Credit[] {
  const toBalance = sum(refunds.map(({ amountCents, cashCents }) => amountCents - cashCents));
  const all: Credit[] = [...given, { kind: "balance", cents: toBalance }];
  return [...Map.groupBy(all, ({ kind }) => kind)]
    .map(([kind, some]) => ({ kind, cents: sum(some.map(({ cents }) => cents)) }))
    .filter(({ cents }) => cents > 0);
}

/** Returns the answer about a subscription that has ended, as far as its refunds are. */
export function toResult(
  { kind, step, endedAt }: Cancellation,
  settlement: Settlement,
  refunds: RefundRow[],
): CancelResult {
  const waits = step !== "done" && (kind === "annual" || refunds.length > 0);
  const asOf = Number(endedAt?.seconds ?? 0);
  return {
    status: "canceled",
    ...toEnding({ ...settlement, accessUntil: "now", refunds, underReview: waits, asOf }),
  };
}
