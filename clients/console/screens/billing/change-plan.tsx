import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { isRefusal, type Subscription, type SubscriptionChange } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Alert, Form } from "../../design/form.tsx";
import { day, dollars } from "../../design/format.ts";
import { Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Amounts } from "./amounts.tsx";
import { type Choice, PlanChoice } from "./plan-choice.tsx";
import { useRefresh } from "./subscription-query.ts";

type ChangePlanProps = { subscription: Subscription; onClose: () => void };

/** Another plan or cadence: first what it charges, to the cent, then the change for exactly that. */
export function ChangePlan({ subscription, onClose }: ChangePlanProps) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const present = subscription.items.find(({ kind }) => kind === "plan")?.ref;
  const [choice, setChoice] = useState<Choice>({
    tierId: present === "team" ? "team" : "pro",
    cadence: subscription.cadence,
  });
  const preview = useQuery({
    // Not below what a notification has read again: the amounts stay as they were seen.
    queryKey: ["change-preview", at.accountId, choice.tierId, choice.cadence],
    queryFn: () => berth.subscription.previewChange(at, choice),
    refetchOnWindowFocus: false,
    staleTime: 0,
    gcTime: 0,
  });
  const change = useMutation({
    mutationFn: ({ asOf, totalUsd }: SubscriptionChange) =>
      berth.subscription.update(at, { ...choice, asOf, totalUsd }),
    onSuccess: async () => {
      await refresh();
      onClose();
    },
    onError: (error) => {
      if (isRefusal(error, "preview_outdated")) void preview.refetch();
    },
  });
  const { plan, change: says } = texts.billing;
  const { data } = preview;
  const isPresent = data?.effect === "none" && data.warnings.length === 0;
  return (
    <Dialog title={plan.change} onClose={onClose} wide>
      <p className="hint">{says.hint}</p>
      <PlanChoice
        choice={choice}
        onChoose={(chosen) => {
          change.reset();
          setChoice(chosen);
        }}
      />
      {preview.isPending && <Loading />}
      <Alert error={preview.error} />
      {data && isPresent && <p>{says.none}</p>}
      {data && !isPresent && (
        <Form
          onSubmit={() => change.mutate(data)}
          error={change.error}
          isBusy={change.isPending || preview.isFetching}
          submit={data.totalUsd > 0 ? says.submitAndPay(dollars(data.totalUsd)) : says.submit}
        >
          <Cost preview={data} />
        </Form>
      )}
    </Dialog>
  );
}

function Cost({ preview }: { preview: SubscriptionChange }) {
  const { effect, effectiveAt, lines, discountUsd, taxUsd, balanceUsd, totalUsd } = preview;
  const { renewsAt, renewalUsd, cadence, creditUsd, exceeded, warnings } = preview;
  const { change, sums, each, limits } = texts.billing;
  return (
    <>
      <p>{effect === "period_end" ? change.later(day(effectiveAt)) : change.now}</p>
      {lines.length > 0 && (
        <Amounts
          caption={change.caption}
          lines={[
            ...lines.map((line) => ({ label: change.line(line), usd: line.amountUsd })),
            { label: sums.discount(), usd: -discountUsd },
            { label: sums.tax, usd: taxUsd },
            { label: sums.balance, usd: balanceUsd },
          ]}
          total={{ label: sums.now, usd: totalUsd }}
        />
      )}
      {lines.length === 0 && <p>{change.free}</p>}
      <p>{change.renews(day(renewsAt), dollars(renewalUsd), each[cadence])}</p>
      <p>{change.credit(dollars(creditUsd))}</p>
      {exceeded.length > 0 && (
        <>
          <p>{change.exceeded}</p>
          <ul>
            {exceeded.map(({ limit, allowed, used }) => (
              <li key={limit}>
                {change.limit(limits.of[limit as keyof typeof limits.of] ?? limit, used, allowed)}
              </li>
            ))}
          </ul>
        </>
      )}
      {warnings.map((warning) => (
        <p key={warning} className="note">
          {warning}
        </p>
      ))}
    </>
  );
}
