import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Empty, Failure, Loading } from "../../design/state.tsx";
import { MeContext, useAccount, useAccountAddress, useMe } from "../../session/address.ts";
import { berth, toSignIn } from "../../session/api.ts";
import { keepAccount } from "../../session/last-account.ts";
import { texts } from "../../texts.ts";
import { Bell } from "./bell.tsx";
import { Switcher } from "./switcher.tsx";

/** What stands around every screen: who one is, which account it is, and how to get elsewhere. */
export function Frame() {
  const me = useQuery({ queryKey: ["me"], queryFn: () => berth.me.get(), staleTime: 0 });
  const first = useRef<string>(undefined);
  const userId = me.data?.id;
  useEffect(() => {
    // Somebody else signed in, in another tab: nothing that is shown here is theirs.
    if (userId && first.current && userId !== first.current) location.reload();
    first.current ??= userId;
  }, [userId]);
  if (me.isPending) return <Loading />;
  if (!me.data)
    return (
      <main>
        <h1>{texts.name}</h1>
        <Failure error={me.error} retry={() => void me.refetch()} />
      </main>
    );
  return (
    <MeContext value={me.data}>
      <Bar />
      <main id="content" tabIndex={-1}>
        <Content />
      </main>
    </MeContext>
  );
}

function Content() {
  const { accountId } = useAccountAddress();
  const account = useAccount();
  useEffect(() => {
    if (account) keepAccount(account.id);
  }, [account]);
  if (accountId !== undefined && !account) return <Empty isScreen title={texts.frame.notMember} />;
  return <Outlet />;
}

const isShortcut = (event: KeyboardEvent) =>
  (event.metaKey || event.ctrlKey) && !event.altKey && event.key.toLowerCase() === "k";

function Bar() {
  const [isSearching, setIsSearching] = useState(false);
  const account = useAccount();
  useEffect(() => {
    const open = (event: KeyboardEvent) => {
      if (!isShortcut(event)) return;
      event.preventDefault();
      setIsSearching(true);
    };
    addEventListener("keydown", open);
    return () => removeEventListener("keydown", open);
  }, []);
  const signOut = () => berth.sessions.signOut().then(toSignIn, toSignIn);
  return (
    <>
      <header className="bar">
        <a className="skip" href="#content">
          {texts.skip}
        </a>
        <Link to="/" className="brand">
          {texts.name}
        </Link>
        <AccountSwitch />
        {account && (
          <button
            type="button"
            className="search"
            aria-keyshortcuts="Control+K Meta+K"
            onClick={() => setIsSearching(true)}
          >
            {texts.frame.search} <kbd>⌘K</kbd>
          </button>
        )}
        <nav aria-label={texts.frame.links}>
          {account && (
            <>
              <Link to="/accounts/$accountId/members" params={{ accountId: account.id }}>
                {texts.frame.members}
              </Link>
              <Link to="/accounts/$accountId/subscription" params={{ accountId: account.id }}>
                {texts.frame.billing}
              </Link>
              {account.myRole === "owner" && (
                <Link to="/accounts/$accountId/webhooks" params={{ accountId: account.id }}>
                  {texts.frame.webhooks}
                </Link>
              )}
            </>
          )}
          <Link to="/me/tokens">{texts.frame.tokens}</Link>
          <a href="/docs">{texts.frame.docs}</a>
          <Link to="/me">{texts.frame.profile}</Link>
          <button type="button" className="quiet" onClick={() => void signOut()}>
            {texts.frame.signOut}
          </button>
          <Bell />
        </nav>
      </header>
      {isSearching && account && <Switcher onClose={() => setIsSearching(false)} />}
    </>
  );
}

function AccountSwitch() {
  const { accounts } = useMe();
  const account = useAccount();
  const navigate = useNavigate();
  if (!account) return null;
  return (
    <select
      aria-label={texts.frame.account}
      value={account.id}
      onChange={({ target }) =>
        void navigate({ to: "/accounts/$accountId", params: { accountId: target.value } })
      }
    >
      {accounts.map(({ id, handle }) => (
        <option key={id} value={id}>
          {handle}
        </option>
      ))}
    </select>
  );
}
