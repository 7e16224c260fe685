import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Complaint } from "../../design/complaint.ts";
import { keepFocus } from "../../design/focus.ts";
import { Alert } from "../../design/form.tsx";
import { Empty, Failure, Loading, sentenceOf } from "../../design/state.tsx";
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
  const shown = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname });
  const first = useRef(shown);
  useEffect(() => {
    // A browser begins at the top of what it just opened, where the link is that leads past the bar.
    first.current ??= shown;
    if (shown !== first.current) keepFocus();
  }, [shown]);
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
  const signOut = useMutation({ mutationFn: () => berth.sessions.signOut(), onSuccess: toSignIn });
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
          <button
            type="button"
            className="quiet"
            aria-disabled={signOut.isPending}
            onClick={() => signOut.isPending || signOut.mutate()}
          >
            {texts.frame.signOut}
          </button>
          <Bell />
        </nav>
      </header>
      {/* Whoever leaves the computer must know that somebody else could go on. */}
      {signOut.error && <Alert error={new Complaint(texts.frame.notSignedOut(sentenceOf(signOut.error)))} />}
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
