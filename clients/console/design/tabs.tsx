import { Link } from "@tanstack/react-router";
import { useAccount } from "../session/address.ts";
import { texts } from "../texts.ts";

/** The screens about an account's people and programs. Only owners may see all of them. */
export function AccountTabs() {
  const account = useAccount();
  if (account?.myRole !== "owner") return null;
  const params = { accountId: account.id };
  return (
    <nav className="tabs" aria-label={texts.tabs.account}>
      <Link to="/accounts/$accountId/members" params={params}>
        {texts.members.title}
      </Link>
      <Link to="/accounts/$accountId/grants" params={params}>
        {texts.applications.title}
      </Link>
      <Link to="/accounts/$accountId/registries" params={params}>
        {texts.registries.title}
      </Link>
      <Link to="/accounts/$accountId/audit-events" params={params}>
        {texts.audit.title}
      </Link>
    </nav>
  );
}

/** The screens about the user. */
export function MeTabs() {
  return (
    <nav className="tabs" aria-label={texts.tabs.me}>
      <Link to="/me" activeOptions={{ exact: true }}>
        {texts.me.title}
      </Link>
      <Link to="/me/tokens">{texts.frame.tokens}</Link>
      <Link to="/me/sessions">{texts.sessions.title}</Link>
      <Link to="/me/mcp-grants">{texts.applications.title}</Link>
    </nav>
  );
}
