import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Account, ChangePasswordRequest, MyInvitation } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Dialog } from "../../design/dialog.tsx";
import { Alert, Form, Input } from "../../design/form.tsx";
import { MeTabs } from "../../design/tabs.tsx";
import { queries } from "../../live/queries.ts";
import { useMe } from "../../session/address.ts";
import { berth, toSignIn } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const refresh = () => queries.invalidateQueries({ queryKey: ["me"] });

/** The user: name and password, accounts and invitations, and the end of it all. */
export function Profile() {
  const { email } = useMe();
  return (
    <>
      <title>{`${texts.me.title} – ${texts.name}`}</title>
      <MeTabs />
      <h1>
        {texts.me.title} <small>{email}</small>
      </h1>
      <Invitations />
      <Name />
      <Password />
      <Accounts />
      <Delete />
    </>
  );
}

function Name() {
  const { displayName } = useMe();
  const update = useMutation({
    mutationFn: (name: string) => berth.me.update({ displayName: name }),
    onSuccess: refresh,
  });
  return (
    <section className="narrow">
      <h2>{texts.me.name}</h2>
      <Form
        onSubmit={(fields) => update.mutate(String(fields.get("name")))}
        error={update.error}
        isBusy={update.isPending}
        submit={texts.save}
      >
        <Input
          label={texts.me.displayName}
          hint={texts.me.nameHint}
          name="name"
          required
          autoComplete="name"
          defaultValue={displayName}
        />
        {update.isSuccess && <p role="status">{texts.me.saved}</p>}
      </Form>
    </section>
  );
}

function Password() {
  const [tries, setTries] = useState(0);
  const change = useMutation({
    // Its variables are passwords.
    gcTime: 0,
    mutationFn: (passwords: ChangePasswordRequest) => berth.me.changePassword(passwords),
    onSuccess: () => {
      setTries((before) => before + 1);
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  const submit = (fields: FormData) =>
    change.mutate({ current: String(fields.get("current")), new: String(fields.get("new")) });
  return (
    <section className="narrow">
      <h2>{texts.me.password}</h2>
      <Form
        // Empty fields after a change.
        key={tries}
        onSubmit={submit}
        error={change.error}
        isBusy={change.isPending}
        submit={texts.me.changePassword}
      >
        <Input
          label={texts.me.current}
          name="current"
          type="password"
          required
          autoComplete="current-password"
        />
        <Input
          label={texts.me.new}
          hint={texts.me.newHint}
          name="new"
          type="password"
          required
          minLength={12}
          autoComplete="new-password"
        />
        {change.isSuccess && <p role="status">{texts.me.changed}</p>}
      </Form>
    </section>
  );
}

function Accounts() {
  const { accounts } = useMe();
  if (accounts.length === 0) return null;
  return (
    <section>
      <h2>{texts.me.accounts}</h2>
      <ul className="bare">
        {accounts.map((account) => (
          <AccountItem key={account.id} account={account} />
        ))}
      </ul>
    </section>
  );
}

function AccountItem({ account: { id, handle, myRole } }: { account: Account }) {
  const { id: userId } = useMe();
  const leave = useMutation({
    mutationFn: () => berth.members.remove({ accountId: id }, userId),
    onSuccess: refresh,
  });
  return (
    <li>
      {handle}, {myRole}{" "}
      <Confirm
        text={texts.me.leave}
        about={handle}
        sentence={texts.me.leaveHint}
        action={{ ...leave, mutate: () => leave.mutate() }}
      />
    </li>
  );
}

function Invitations() {
  const key = ["my-invitations"];
  const invitations = useQuery({
    queryKey: key,
    queryFn: () => berth.invitations.listMine({ limit: 100 }).all(100),
  });
  const answer = useMutation({
    mutationFn: async ({ id, accepts }: { id: string; accepts: boolean }) => {
      await (accepts ? berth.invitations.accept(id) : berth.invitations.decline(id));
    },
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: key });
      return refresh();
    },
  });
  if (!invitations.data?.length) return <Alert error={invitations.error ?? answer.error} />;
  const send = (id: string, accepts: boolean) => answer.isPending || answer.mutate({ id, accepts });
  return (
    <section className="note">
      <h2>{texts.me.invitations}</h2>
      <ul className="bare">
        {invitations.data.map(({ id, accountHandle, role, invitedBy }: MyInvitation) => (
          <li key={id}>
            {texts.me.invited(accountHandle, role, invitedBy)}{" "}
            <button type="button" onClick={() => send(id, true)}>
              {texts.me.accept}
              <span className="unseen"> {accountHandle}</span>
            </button>{" "}
            <button type="button" className="quiet" onClick={() => send(id, false)}>
              {texts.me.decline}
              <span className="unseen"> {accountHandle}</span>
            </button>
          </li>
        ))}
      </ul>
      <Alert error={answer.error} />
    </section>
  );
}

function Delete() {
  const [isOpen, setIsOpen] = useState(false);
  const remove = useMutation({
    gcTime: 0,
    mutationFn: (password: string) => berth.me.delete({ password }),
    onSuccess: toSignIn,
  });
  return (
    <section>
      <h2>{texts.me.delete}</h2>
      <p>{texts.me.deleteHint}</p>
      <button type="button" className="danger" onClick={() => setIsOpen(true)}>
        {texts.me.delete}
      </button>
      {isOpen && (
        <Dialog title={texts.me.delete} onClose={() => setIsOpen(false)}>
          <Form
            onSubmit={(fields) => remove.mutate(String(fields.get("password")))}
            error={remove.error}
            isBusy={remove.isPending}
            submit={texts.me.delete}
            dangerous
          >
            <p>{texts.me.deleteHint}</p>
            <Input
              label={texts.me.deletePassword}
              name="password"
              type="password"
              required
              autoComplete="current-password"
            />
          </Form>
        </Dialog>
      )}
    </section>
  );
}
