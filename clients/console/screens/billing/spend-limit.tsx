import { useMutation, useQuery } from "@tanstack/react-query";
import { Form, Input } from "../../design/form.tsx";
import { day, dollars } from "../../design/format.ts";
import { Failure, Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { billingKey, useRefresh } from "./subscription-query.ts";

/** What compute of a period may cost at most, and what it has cost. */
export function SpendLimit() {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const limit = useQuery({
    queryKey: billingKey(at.accountId, "spend-limit"),
    queryFn: () => berth.spendLimit.get(at),
  });
  const set = useMutation({
    mutationFn: (limitUsd: number | undefined) =>
      berth.spendLimit.set(at, limitUsd === undefined ? {} : { limitUsd }),
    onSuccess: refresh,
  });
  const { spendLimit: says } = texts.billing;
  if (limit.isPending) return <Loading />;
  if (!limit.data) return <Failure error={limit.error} retry={() => void limit.refetch()} />;
  const { limitUsd, spentUsd, reached, periodEnd } = limit.data;
  return (
    <section className="narrow">
      <h2>{says.title}</h2>
      <p>{limitUsd === undefined ? says.none : says.spent(dollars(spentUsd), dollars(limitUsd))}</p>
      {limitUsd !== undefined && (
        <meter min={0} max={limitUsd} value={spentUsd} aria-label={says.title}>
          {dollars(spentUsd)}
        </meter>
      )}
      {reached && <p className="note">{says.reached(day(periodEnd))}</p>}
      <Form
        key={limitUsd}
        onSubmit={(fields) => {
          const text = String(fields.get("limit")).trim();
          set.mutate(text === "" ? undefined : Number(text));
        }}
        error={set.error}
        isBusy={set.isPending}
        submit={texts.save}
      >
        <Input
          label={says.label}
          hint={says.hint}
          name="limit"
          type="number"
          min={1}
          max={1_000_000}
          step={0.01}
          defaultValue={limitUsd}
        />
      </Form>
    </section>
  );
}
