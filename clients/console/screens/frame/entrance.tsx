import { Link, Navigate } from "@tanstack/react-router";
import { Empty } from "../../design/state.tsx";
import { useMe } from "../../session/address.ts";
import { lastAccount } from "../../session/last-account.ts";
import { texts } from "../../texts.ts";

/** Leads to the account that was open last, or to the oldest. */
export function Entrance() {
  const { accounts } = useMe();
  const last = lastAccount();
  const account = accounts.find(({ id }) => id === last) ?? accounts.at(-1);
  if (account) return <Navigate to="/accounts/$accountId" params={{ accountId: account.id }} replace />;
  return (
    <Empty isScreen title={texts.frame.noAccountTitle}>
      <p>
        {texts.frame.noAccount} <Link to="/me">{texts.frame.invitations}</Link>
      </p>
    </Empty>
  );
}
