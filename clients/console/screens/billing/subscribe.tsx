import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type CheckoutPreview, isRefusal } from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { day, dollars } from "../../design/format.ts";
import { Empty, Loading, sentenceOf } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Amounts } from "./amounts.tsx";
import { type Choice, PlanChoice } from "./plan-choice.tsx";
import { PromoCode } from "./promo-code.tsx";
import { checkoutKey } from "./subscription-query.ts";

/** What an account without a subscription can buy: first what it costs, then the payment provider's page. */
export function Subscribe({ tier }: { tier: string }) {
  const at = useAccountAddress();
  const [choice, setChoice] = useState<Choice>({ tierId: "pro", cadence: "monthly" });
  const preview = useQuery({
    queryKey: checkoutKey(at.accountId, choice.tierId, choice.cadence),
    queryFn: () => berth.subscription.previewCheckout(at, choice),
    refetchOnWindowFocus: false,
  });
  const buy = useMutation({
    gcTime: 0,
    mutationFn: async () => location.assign((await berth.subscription.create(at, choice)).checkoutUrl),
  });
  const { subscribe } = texts.billing;
  if (
    isRefusal(preview.error, "payment_provider_unavailable") ||
    isRefusal(preview.error, "direct_agreement")
  )
    return (
      <Empty title={subscribe.onPlan(tier)}>
        <p>{sentenceOf(preview.error)}</p>
        <button type="button" onClick={() => void preview.refetch()}>
          {texts.tryAgain}
        </button>
      </Empty>
    );
  return (
    <>
      <h2>{subscribe.onPlan(tier)}</h2>
      <p>{subscribe.hint}</p>
      <PlanChoice choice={choice} onChoose={setChoice} />
      {preview.isPending && <Loading />}
      <Alert error={preview.error} />
      {preview.data && (
        <>
          <Cost preview={preview.data} choice={choice} />
          <p className="actions">
            <button
              type="button"
              className="main"
              aria-disabled={buy.isPending}
              onClick={() => buy.isPending || buy.mutate()}
            >
              {buy.isPending ? texts.working : subscribe.pay}
            </button>
          </p>
          <p className="hint">{subscribe.payHint}</p>
        </>
      )}
      <Alert error={buy.error} />
      <PromoCode />
    </>
  );
}

function Cost({ preview, choice }: { preview: CheckoutPreview; choice: Choice }) {
  const { lines, coupon, couponRefusal, discountUsd, otherUsd, balanceUsd, taxUsd, totalUsd } = preview;
  const { renewsAt, renewalUsd, owedUsd, owedComputeUsd, taxAtCheckout } = preview;
  const { subscribe, sums, each } = texts.billing;
  return (
    <>
      <Amounts
        caption={subscribe.caption}
        lines={[
          ...lines.map(({ kind, quantity, amountUsd }) => ({
            label: kind === "plan" ? sums.plan(choice.tierId) : sums.seats(quantity, choice.tierId),
            usd: amountUsd,
          })),
          { label: sums.discount(coupon?.code), usd: -discountUsd },
          { label: sums.other, usd: otherUsd },
          { label: sums.balance, usd: balanceUsd },
          { label: sums.tax, usd: taxUsd },
        ]}
        total={{ label: sums.now, usd: totalUsd }}
      />
      {couponRefusal && (
        <p className="note">{subscribe.couponRefused(couponRefusal.code, couponRefusal.reason)}</p>
      )}
      <p>{subscribe.renews(day(renewsAt), dollars(renewalUsd), each[choice.cadence])}</p>
      {taxAtCheckout && <p>{subscribe.taxAtCheckout}</p>}
      {owedUsd > 0 && <p className="note">{subscribe.owed(dollars(owedUsd))}</p>}
      {owedComputeUsd > 0 && <p className="note">{subscribe.owedCompute(dollars(owedComputeUsd))}</p>}
    </>
  );
}
