import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { onDay, timeKey } from "../../notices/text.ts";
import { dollars } from "./invoice-texts.ts";
import type { OwnersNotice } from "./owners-notice.ts";

export function usageThreshold(event: billing.UsageThreshold, handle: string): OwnersNotice {
  const { percent, periodStart, accruedNanoUsd, budgetNanoUsd, creditNanoUsd } = event;
  const [accrued, budget] = [dollars(toCents(accruedNanoUsd)), dollars(toCents(budgetNanoUsd))];
  if (creditNanoUsd > 0n && accruedNanoUsd >= creditNanoUsd)
    return {
      kind: "billing.credit_exhausted",
      title: `${handle} has used up the compute credit of its plan`,
      body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; the plan pays ${dollars(toCents(creditNanoUsd))} of it. Further compute is billed. The billing page shows which services use it: stop or reduce services that you do not need.`,
      metadata: { accrued, credit: dollars(toCents(creditNanoUsd)) },
      dedupe: timeKey(periodStart),
    };
  return {
    kind: "billing.usage_threshold",
    title: `${handle} has used ${percent} % of its compute budget`,
    body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; its budget is ${budget}. The billing page shows which services use it: stop or reduce services that you do not need.`,
    metadata: { percent: String(percent), accrued, budget },
    dedupe: `${timeKey(periodStart)}:${percent}`,
  };
}

/** What runs without a plan, in the words of docs/billing.md#after-a-plan-ends. */
const KEPT =
  "One web and one worker service keep running if they have one replica of size nano. Databases keep running, and nothing is deleted.";

export function graceStageReached(
  { stage, graceUntil, owed }: billing.GraceStageReached,
  handle: string,
): OwnersNotice {
  const day = onDay(graceUntil).replace(" on ", "");
  const common = { metadata: { until: day }, dedupe: `${timeKey(graceUntil)}:${stage}` };
  if (stage === "over")
    return {
      ...common,
      kind: "billing.services_stopped",
      title: `Services of ${handle} were stopped`,
      body: `No plan pays for what ${handle} runs beyond the free plan, and the grace period is over. ${KEPT} Services that were stopped start again when you subscribe on the billing page.${owed ? " What ran beyond the free plan since your plan ended is charged with the first compute invoice of that subscription. If you do not subscribe, it is not charged." : ""}`,
    };
  return {
    ...common,
    kind: "billing.grace_period",
    title:
      stage === "last_day"
        ? `Services of ${handle} are stopped tomorrow`
        : `Services of ${handle} keep running until ${day}`,
    body: `No plan pays for what ${handle} runs beyond the free plan. It keeps running until ${day}; then services beyond the free plan are stopped. ${KEPT} To keep all of them running, subscribe on the billing page before that day.${owed ? " What runs beyond the free plan until then is charged with the first compute invoice of that subscription. If you do not subscribe, it is not charged. To owe less, stop or reduce services now." : ""}`,
  };
}

export function servicesResumed({ reason, at }: billing.ServicesResumed, handle: string): OwnersNotice {
  const why =
    reason === "spend_limit"
      ? "The spend limit is not reached any longer: it was raised or removed, or a new period began."
      : "A plan pays for them again.";
  return {
    kind: "billing.services_resumed",
    title: `Services of ${handle} run again`,
    body: `${why} Services that were stopped start with the replicas that they had before. You do not need to do anything.`,
    metadata: { reason },
    dedupe: `${timeKey(at)}:${reason}`,
  };
}

export function spendLimitReached(event: billing.SpendLimitReached, handle: string): OwnersNotice {
  const { percent, limitCents, spentNanoUsd, periodStart, periodEnd } = event;
  const [spent, limit] = [dollars(toCents(spentNanoUsd)), dollars(limitCents)];
  const stops =
    percent >= 100
      ? `Services are therefore stopped until the period ends${onDay(periodEnd)}. ${KEPT} What keeps running is still charged. To start the others earlier, raise or remove the spend limit of the account.`
      : `At 100 %, services are stopped until the period ends${onDay(periodEnd)}. ${KEPT} To prevent that, stop or reduce services that you do not need, or raise the spend limit of the account.`;
  return {
    kind: "billing.spend_limit",
    title:
      percent >= 100
        ? `${handle} has reached its spend limit`
        : `${handle} has spent ${percent} % of its limit`,
    body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${spent} beyond what its plan includes; the limit that you set is ${limit}. ${stops}`,
    metadata: { percent: String(percent), spent, limit },
    dedupe: `${timeKey(periodStart)}:${limitCents}:${percent}`,
  };
}

const toCents = (nanoUsd: bigint) => nanoUsd / 10_000_000n;
