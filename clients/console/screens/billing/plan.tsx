import { useMutation } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Subscription } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Alert } from "../../design/form.tsx";
import { day, dollars } from "../../design/format.ts";
import { Failure, Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { CancelPlan } from "./cancel-plan.tsx";
import { ChangePlan } from "./change-plan.tsx";
import { PlanNotes } from "./plan-notes.tsx";
import { PromoCode } from "./promo-code.tsx";
import { Subscribe } from "./subscribe.tsx";
import { usePlanOfAccount, useRefresh, useSubscription } from "./subscription-query.ts";

/** The plan of the account: what it costs, when it is paid next, and how to change it. */
export function Plan() {
  const { returned } = useSearch({ strict: false }) as { returned?: keyof typeof texts.billing.returned };
  const subscription = useSubscription();
  const account = usePlanOfAccount();
  const refresh = useRefresh();
  const [isCanceling, setIsCanceling] = useState(false);
  if (subscription.isPending || account.isPending) return <Loading />;
  if (subscription.data === undefined || !account.data)
    return <Failure error={subscription.error ?? account.error} retry={() => void refresh()} />;
  // Until the payment is confirmed there is no subscription, and what is paid already must not be offered again.
  const isOrdered = returned === "subscribed" && !subscription.data;
  return (
    <>
      {returned && (
        <div className="note" role="status">
          <p>{texts.billing.returned[returned]}</p>
          <button type="button" onClick={() => void refresh()}>
            {texts.billing.look}
          </button>{" "}
          {isOrdered && (
            <Link to="/accounts/$accountId/subscription" params={{ accountId: account.data.id }} search={{}}>
              {texts.billing.choose}
            </Link>
          )}
        </div>
      )}
      <PlanNotes plan={account.data.plan} />
      {subscription.data ? (
        <Present subscription={subscription.data} onCancel={() => setIsCanceling(true)} />
      ) : (
        isOrdered || <Subscribe tier={account.data.plan?.tier ?? "free"} />
      )}
      {/* It says what was refunded also when there is no subscription any more. */}
      {isCanceling && <CancelPlan onClose={() => setIsCanceling(false)} />}
    </>
  );
}

type PresentProps = { subscription: Subscription; onCancel: () => void };

function Present({ subscription, onCancel }: PresentProps) {
  const { status, cadence, currentPeriodEnd, cancelAtPeriodEnd, pendingChange, legacyUntil } = subscription;
  const { items, paymentMethod, coupon, priceVersion } = subscription;
  const tier = items.find(({ kind }) => kind === "plan")?.ref ?? "";
  const seats = items.find(({ kind }) => kind === "seat")?.quantity ?? 0;
  const price = items.reduce((sum, { quantity, unitPriceUsd }) => sum + quantity * unitPriceUsd, 0);
  const { plan, cadences } = texts.billing;
  return (
    <>
      {status !== "active" && status !== "trialing" && <p className="note">{plan.statuses[status]}</p>}
      <dl className="facts">
        <dt>{plan.plan}</dt>
        <dd>
          {tier}, {cadences[cadence]}
        </dd>
        <dt>{plan.members}</dt>
        <dd>{plan.seats(seats)}</dd>
        <dt>{plan.price}</dt>
        <dd>
          {plan.each[cadence](dollars(price))} <span className="hint">{plan.priceList(priceVersion)}</span>
        </dd>
        {legacyUntil && (
          <>
            <dt>{plan.newPrices}</dt>
            <dd>{plan.legacy(day(legacyUntil))}</dd>
          </>
        )}
        <dt>{cancelAtPeriodEnd ? plan.ends : plan.next}</dt>
        <dd>
          {day(currentPeriodEnd)} {cancelAtPeriodEnd && <span className="hint">{plan.endsHint}</span>}
        </dd>
        {pendingChange && (
          <>
            <dt>{plan.changes}</dt>
            <dd>{plan.to(day(pendingChange.at), pendingChange.tierId, cadences[pendingChange.cadence])}</dd>
          </>
        )}
        <dt>{plan.card}</dt>
        <dd>
          {paymentMethod ? plan.method(paymentMethod) : <span className="bad">{plan.noCard}</span>}{" "}
          <Expiry method={paymentMethod} />
        </dd>
      </dl>
      <Actions subscription={subscription} onCancel={onCancel} />
      <PromoCode applied={coupon} />
    </>
  );
}

/** Says that a card no longer pays, or will not for long. */
function Expiry({ method }: { method: Subscription["paymentMethod"] }) {
  if (!method?.expMonth || !method.expYear) return null;
  // A card is valid until its month is over.
  const end = Date.UTC(method.expYear, method.expMonth);
  if (end > Date.now() + 31 * 86_400_000) return null;
  const { expired, expires } = texts.billing.plan;
  return <span className={end < Date.now() ? "bad" : "warn"}>▲ {end < Date.now() ? expired : expires}</span>;
}

function Actions({ subscription, onCancel }: PresentProps) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const [isChanging, setIsChanging] = useState(false);
  const keep = useMutation({
    mutationFn: () => berth.subscription.update(at, { cancelAtPeriodEnd: false }),
    onSettled: refresh,
  });
  const { plan } = texts.billing;
  return (
    <div className="actions">
      {subscription.cancelAtPeriodEnd ? (
        <Confirm
          text={plan.keep}
          about=""
          sentence={plan.keepHint(day(subscription.currentPeriodEnd))}
          action={{ ...keep, mutate: () => keep.mutate() }}
        />
      ) : (
        <>
          <button type="button" className="main" onClick={() => setIsChanging(true)}>
            {plan.change}
          </button>
          <button type="button" className="danger" onClick={onCancel}>
            {plan.cancel}
          </button>
        </>
      )}
      <Portal />
      {isChanging && <ChangePlan subscription={subscription} onClose={() => setIsChanging(false)} />}
    </div>
  );
}

/** Leads to the payment provider's page with cards, addresses and invoices: its address works for minutes. */
function Portal() {
  const at = useAccountAddress();
  const open = useMutation({
    gcTime: 0,
    mutationFn: async () => location.assign((await berth.billing.openPortal(at)).url),
  });
  return (
    <>
      <button type="button" aria-disabled={open.isPending} onClick={() => open.mutate()}>
        {texts.billing.plan.portal}
      </button>
      <Alert error={open.error} />
    </>
  );
}
