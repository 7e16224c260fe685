import { useMutation, useQuery } from "@tanstack/react-query";
import type { Coupon } from "../../../typescript/src/index.ts";
import { Alert, Form, Input } from "../../design/form.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { billingKey, useRefresh } from "./subscription-query.ts";

/** The promo code of the subscription, or the one that is saved for the next; and a form for another one. */
export function PromoCode({ applied }: { applied?: Coupon | undefined }) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const saved = useQuery({
    queryKey: billingKey(at.accountId, "coupon"),
    queryFn: () => berth.coupon.get(at),
  });
  const redeem = useMutation({
    mutationFn: (code: string) => berth.coupon.redeem(at, { code }),
    onSuccess: refresh,
  });
  const remove = useMutation({ mutationFn: () => berth.coupon.remove(at), onSettled: refresh });
  const pending = saved.data?.pending;
  const coupon = applied ?? pending;
  const { promo } = texts.billing;
  return (
    <section className="narrow">
      <h2>{promo.title}</h2>
      {coupon && (
        <p>
          <code>{coupon.code}</code> {coupon.label}{" "}
          <span className="hint">{applied ? promo.applied : promo.saved}</span>{" "}
          <button type="button" className="quiet" onClick={() => remove.mutate()}>
            {promo.remove}
          </button>
        </p>
      )}
      <Alert error={saved.error ?? remove.error} />
      <Form
        key={coupon?.code}
        onSubmit={(fields) => redeem.mutate(String(fields.get("code")).trim())}
        error={redeem.error}
        isBusy={redeem.isPending}
        submit={promo.redeem}
      >
        <Input
          label={promo.code}
          hint={coupon ? promo.replaces : undefined}
          name="code"
          required
          maxLength={200}
          spellCheck={false}
        />
      </Form>
    </section>
  );
}
