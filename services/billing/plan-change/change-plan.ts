import { causeOf } from "../../kit/failures.ts";
import { newId } from "../../kit/ids.ts";
import type { Logger } from "../../kit/log.ts";
import type { planFields } from "../../kit/plans.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { ConfigOf } from "../../kit/process/config.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import { conflict, invalid, isRefusal, refuse } from "../../kit/rpc/refusals.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import type { ReadMembers } from "../accounts/read-members.ts";
import { canceling } from "../cancellation/cancelable.ts";
import { findCancellation } from "../cancellation/sql.ts";
import { computeItemsOf, isUnused, readLines } from "../invoices/subscribed-lines.ts";
import { type Cadence, extraSeats, isPaidTier, type PaidTier } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { planItemOf } from "../schedule/put-schedule.ts";
import { isRefused, isStripeError, type Provider, timeOf, unavailable } from "../stripe/provider.ts";
import { mirrorSubscription } from "../subscription/mirror-subscription.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { findSubscription } from "../subscription/sql.ts";
import { BILLED, LIVE } from "../subscription/statuses.ts";
import { type Choice, decide } from "./decide.ts";
import { type Change, forecastChange, type Planned } from "./forecast.ts";
import type { MakeChange } from "./make-change.ts";
import * as sql from "./sql.ts";

/** How old the preview may be whose time is charged from, in seconds; and how far clocks may be apart. */
const PREVIEW_SECONDS = 600;
const SKEW_SECONDS = 5;

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceId: PriceId;
  readMembers: ReadMembers;
  /** What plans allow in this installation. */
  plans: ConfigOf<typeof planFields>;
  makeChange: MakeChange;
  /** Brings what is recorded of a customer in line with the provider, under the lock of its account. */
  syncLocked: (accountId: string, customerId: string) => Promise<void>;
  log: Logger;
};

export type Wanted = { tierId?: string | undefined; cadence?: string | undefined };

/** What an owner requests: with the time (s) and the amount (cents) of a preview, if one was shown. */
export type PlanRequest = Wanted & {
  cancelAtPeriodEnd?: boolean | undefined;
  asOf?: number | undefined;
  totalCents?: number | undefined;
};

/**
 * Changes the plan or the cadence of a subscription, or undoes its cancellation (docs/billing.md#changing-the-plan). Throws
 * what it lists; after 502 payment_provider_unavailable it may yet have happened, and can be requested again.
 */
export type ChangePlan = (accountId: string, request: PlanRequest, who: Who) => Promise<Change>;

/** Returns what the same request would answer. Changes nothing. */
export type PreviewChange = (accountId: string, wanted: Wanted) => Promise<Change>;

export function createChangePlan(deps: Deps): { changePlan: ChangePlan; previewChange: PreviewChange } {
  const { pool, provider, lock, readMembers, makeChange, syncLocked, log } = deps;

  async function changePlan(accountId: string, request: PlanRequest, who: Who): Promise<Change> {
    const asked = toAsked(request);
    await requireSubscription(accountId);
    return lock(accountId, async () => {
      const { id } = await requireSubscription(accountId);
      await settleOpen(id);
      const planned = await plan(accountId, id, asked, request.asOf);
      const change = await forecastChange(deps, planned);
      const { totalCents } = request;
      if (totalCents !== undefined && Math.round(change.totalUsd * 100) !== totalCents) throw outdated();
      const kind: sql.PlanChangeKind | "none" = planned.isCanceling ? "resume" : planned.kind;
      if (kind === "none") return change;
      const { to, seats, at, subscription } = planned;
      const customer = customerOf(subscription);
      const ids = { id: newId("pch"), accountId, subscriptionId: id };
      const about = { ...ids, ...to, kind, seats, chargedFrom: at, requestedBy: who };
      // The period of compute that runs keeps the credit of the plan at its start: it is recorded before the plan changes.
      if (kind === "upgrade") await syncLocked(accountId, customer);
      await carryOut((await sql.requestPlanChange(pool, about))!);
      await syncLocked(accountId, customer).catch((error) =>
        log.warn({ subscription: id, cause: causeOf(error) }, "a change of plan is recorded later"),
      );
      return change;
    });
  }

  /** A change before this one that was interrupted: it was made, or is replaced by this one. */
  async function settleOpen(subscriptionId: string): Promise<void> {
    const open = await sql.findOpenChange(pool, subscriptionId);
    if (!open) return;
    const step = await makeChange({ ...open, step: "uncertain" });
    if (step === "uncertain") await sql.movePlanChange(pool, open.id, "refused");
  }

  async function carryOut(change: sql.PlanChange): Promise<void> {
    try {
      await makeChange(change);
    } catch (error) {
      if (isDeclined(error)) throw declined();
      if (isRefused(error)) throw isRefusal(error) ? error : unavailable();
      await sql.movePlanChange(pool, change.id, "uncertain");
      throw isRefusal(error)
        ? unavailable(
            "The payment provider does not answer. Whether the plan has changed is found out within minutes: read the subscription before you try again.",
          )
        : error;
    }
  }

  async function requireSubscription(accountId: string) {
    const found = await findSubscription(pool, accountId);
    if (!found || !LIVE.includes(found.status)) throw noSubscription();
    const cancellation = await findCancellation(pool, found.id);
    if (cancellation && cancellation.step !== "uncertain") throw canceling();
    return found;
  }

  /** Reads a subscription, and decides what a request does to it. Throws what forbids it. */
  async function plan(
    accountId: string,
    id: string,
    asked: Asked,
    asOf?: number,
  ): Promise<Planned & { isCanceling: boolean }> {
    const subscription = await provider.ask((stripe) =>
      stripe.subscriptions.retrieve(id, { expand: ["schedule", "discounts"] }),
    );
    const mirrored = mirrorSubscription(accountId, subscription);
    if (!mirrored || !LIVE.includes(mirrored.status) || !isPaidTier(mirrored.tier)) throw noSubscription();
    const current: Choice = { tier: mirrored.tier, cadence: mirrored.cadence };
    const now = timeOf(subscription);
    const about = { accountId, subscription, current, seats: seatsOf(mirrored.items) };
    if (asked === "resume") {
      const isCanceling = mirrored.cancelAtPeriodEnd;
      return { ...about, kind: isCanceling ? "keep" : "none", to: current, at: now, isCanceling };
    }
    if (mirrored.cancelAtPeriodEnd) throw canceling();
    const pending = mirrored.pending as Choice | undefined;
    const { kind, to } = decide(current, pending && { tier: pending.tier, cadence: pending.cadence }, asked);
    if (kind === "none" && to.tier === current.tier && to.cadence === current.cadence)
      return { ...about, kind, to, at: now, isCanceling: false };
    if (!BILLED.includes(mirrored.status)) throw paymentDue();
    const at = kind === "upgrade" ? requireTime(subscription, now, asOf) : now;
    if (kind === "upgrade") await requireNoRenewal(subscription, now);
    const { count } = await readMembers(accountId);
    const seats = kind === "keep" ? about.seats : extraSeats(to.tier, count);
    return { ...about, kind, to, at, seats, isCanceling: false };
  }

  /** While a renewal is a draft, it asks for the former plan. */
  async function requireNoRenewal(subscription: Planned["subscription"], now: number): Promise<void> {
    const computeItems = computeItemsOf(subscription);
    const lines = await provider.ask(async (stripe) => {
      const drafts = { subscription: subscription.id, status: "draft", limit: 100 } as const;
      const { data } = await stripe.invoices.list(drafts);
      return (await Promise.all(data.map((draft) => readLines(stripe, draft)))).flat();
    });
    if (lines.some((line) => isUnused(line, computeItems, now)))
      throw conflict(
        "renewal_under_way",
        "The plan was renewed within the last hour, and its invoice is not final yet. Try again in an hour.",
      );
  }

  return {
    changePlan,
    previewChange: async (accountId, wanted) => {
      const asked = toAsked(wanted);
      const { id } = await requireSubscription(accountId);
      return forecastChange(deps, await plan(accountId, id, asked));
    },
  };
}

type Asked = Partial<Choice> | "resume";

/** Returns what is requested. Throws 403 tier_not_self_serve and 422. */
function toAsked({ tierId, cadence, cancelAtPeriodEnd }: PlanRequest): Asked {
  const asked = {
    ...(tierId !== undefined && { tier: requirePlan(tierId) }),
    ...(cadence !== undefined && { cadence: cadence as Cadence }),
  };
  const isEmpty = Object.keys(asked).length === 0;
  if (cancelAtPeriodEnd === undefined) {
    if (isEmpty)
      throw invalid("", "empty_patch", "Name the plan (tierId), the cadence, or cancelAtPeriodEnd.");
    return asked;
  }
  if (cancelAtPeriodEnd)
    throw invalid(
      "cancelAtPeriodEnd",
      "invalid_choice",
      "cancelAtPeriodEnd can only be false. DELETE cancels.",
    );
  if (!isEmpty)
    throw invalid("cancelAtPeriodEnd", "one_change", "Undo the cancellation first, then change the plan.");
  return "resume";
}

function requirePlan(tierId: string): PaidTier {
  if (tierId === "enterprise")
    throw refuse(403, "tier_not_self_serve", "The enterprise plan is by agreement. Ask the operator for it.");
  if (!isPaidTier(tierId))
    throw invalid(
      "tierId",
      "invalid_choice",
      "tierId must be pro or team. To go back to free, cancel with DELETE.",
    );
  return tierId;
}

/** Returns from when time is charged: since the preview, or now. Throws 409 preview_outdated. */
function requireTime(subscription: Planned["subscription"], now: number, asOf = now): number {
  const { current_period_start: start } = planItemOf(subscription);
  if (asOf < Math.max(start, now - PREVIEW_SECONDS) || asOf > now + SKEW_SECONDS) throw outdated();
  return Math.min(asOf, now);
}

const customerOf = ({ customer }: Planned["subscription"]) =>
  typeof customer === "string" ? customer : customer.id;

const seatsOf = (items: { kind: string; quantity: number }[]) =>
  items.find(({ kind }) => kind === "seat")?.quantity ?? 0;

const outdated = () =>
  conflict(
    "preview_outdated",
    "The preview is no longer true: it is older than ten minutes, or something changed since. Read it again.",
  );

const paymentDue = () =>
  conflict(
    "payment_due",
    "The last invoice is not paid. Pay it, or change the payment method, then try again.",
  );

const declined = () =>
  conflict(
    "payment_declined",
    "The payment was declined, so nothing was changed. Change the payment method in the portal, then try again.",
  );

/** Whether an error is the provider's answer that the card does not pay, or that there is none. */
function isDeclined(error: unknown): boolean {
  const { statusCode } = (error ?? {}) as { statusCode?: number };
  return statusCode === 402 || isStripeError(error, "resource_missing");
}
