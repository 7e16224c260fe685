import { Link, Outlet } from "@tanstack/react-router";
import { useAccount, useAccountAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";
import { NotOwner } from "./not-owner.tsx";

const ACCOUNT = "/accounts/$accountId";

/** What all screens of billing have. They are for owners; others see the plan and its limits. */
export function BillingLayout() {
  const at = useAccountAddress();
  const account = useAccount();
  const { title, sections, tabs } = texts.billing;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <h1>
        {title} <small>{account?.displayName}</small>
      </h1>
      {account?.myRole === "owner" ? (
        <>
          <nav className="tabs" aria-label={sections}>
            <Link to={`${ACCOUNT}/subscription`} params={at}>
              {tabs.plan}
            </Link>
            <Link to={`${ACCOUNT}/compute-usage`} params={at}>
              {tabs.usage}
            </Link>
            <Link to={`${ACCOUNT}/statements`} params={at}>
              {tabs.statements}
            </Link>
            <Link to={`${ACCOUNT}/invoices`} params={at}>
              {tabs.invoices}
            </Link>
          </nav>
          <Outlet />
        </>
      ) : (
        <NotOwner />
      )}
    </>
  );
}
