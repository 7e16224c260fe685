import { useMutation, useQuery } from "@tanstack/react-query";
import type { CancellationPreview } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Alert, Form } from "../../design/form.tsx";
import { day, dollars } from "../../design/format.ts";
import { Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { useRefresh } from "./subscription-query.ts";

/** Ends the plan: first what is charged and refunded, to the cent; afterwards what was. */
export function CancelPlan({ onClose }: { onClose: () => void }) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const preview = useQuery({
    queryKey: ["cancel-preview", at.accountId],
    queryFn: () => berth.subscription.previewCancellation(at),
    refetchOnWindowFocus: false,
    staleTime: 0,
    gcTime: 0,
  });
  const cancel = useMutation({ mutationFn: () => berth.subscription.cancel(at) });
  const { plan, cancel: says } = texts.billing;
  // It is closed before the screen is read again, which then has no such button.
  const close = () => {
    onClose();
    if (cancel.isSuccess) void refresh();
  };
  return (
    <Dialog title={cancel.isSuccess ? says.done : plan.cancel} onClose={close}>
      {preview.isPending && <Loading />}
      {!cancel.data && <Alert error={preview.error} />}
      {cancel.data && (
        <div role="status">
          <Effects of={cancel.data} />
        </div>
      )}
      {!cancel.data && preview.data && (
        <Form
          onSubmit={() => cancel.mutate()}
          error={cancel.error}
          isBusy={cancel.isPending}
          submit={plan.cancel}
          dangerous
        >
          <Effects of={preview.data} />
        </Form>
      )}
    </Dialog>
  );
}

function Effects({ of }: { of: CancellationPreview }) {
  const { accessUntil, refund, refundUnderReview, underReviewUsd, charges, credits, warnings } = of;
  const { cancel } = texts.billing;
  return (
    <>
      <p>{accessUntil === "now" ? cancel.endsNow : cancel.ends(day(accessUntil))}</p>
      <ul>
        {refund && <li>{cancel.refund(dollars(refund.amountUsd), refund.estimatedArrivalDays)}</li>}
        {refundUnderReview && <li>{cancel.underReview(dollars(underReviewUsd))}</li>}
        {!refund && !refundUnderReview && <li>{cancel.noRefund}</li>}
        {charges.map(({ kind, amountUsd, at, estimated }) => (
          <li key={`${kind} ${at} ${amountUsd}`}>
            {cancel.charge(dollars(amountUsd), cancel.charges[kind], at && day(at), estimated)}
          </li>
        ))}
        {credits.map(({ kind, amountUsd }) => (
          <li key={`${kind} ${amountUsd}`}>{cancel.credit[kind](dollars(amountUsd))}</li>
        ))}
      </ul>
      {warnings.map((warning) => (
        <p key={warning} className="note">
          {warning}
        </p>
      ))}
    </>
  );
}
