import { Link } from "@tanstack/react-router";
import type { AccountLimits } from "../../../typescript/src/index.ts";
import { Empty, Failure, Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";
import { PlanNotes } from "./plan-notes.tsx";
import { usePlanOfAccount } from "./subscription-query.ts";

/** What members see who are no owners: what the API tells them, and whom they can ask for the rest. */
export function NotOwner() {
  const at = useAccountAddress();
  const account = usePlanOfAccount();
  const { ownersOnly, ownersOnlyHint, owners, plan, limits } = texts.billing;
  if (account.isPending) return <Loading />;
  if (!account.data) return <Failure error={account.error} retry={() => void account.refetch()} />;
  const { plan: now, limits: allowed = {} as AccountLimits } = account.data;
  return (
    <>
      <Empty title={ownersOnly}>
        <p>{ownersOnlyHint}</p>
        <p>
          <Link to="/accounts/$accountId/members" params={at}>
            {owners}
          </Link>
        </p>
      </Empty>
      <PlanNotes plan={now} />
      <h2>{limits.title}</h2>
      <dl>
        <dt>{plan.plan}</dt>
        <dd>{now?.tier}</dd>
        {(Object.keys(limits.of) as (keyof AccountLimits)[]).map(
          (name) =>
            allowed[name] !== undefined && (
              <div key={name} className="pair">
                <dt>{limits.of[name]}</dt>
                <dd>{name === "uploadBytes" ? limits.mib(allowed[name] / 2 ** 20) : allowed[name]}</dd>
              </div>
            ),
        )}
      </dl>
    </>
  );
}
