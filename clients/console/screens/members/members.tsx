import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { InviteMemberRequest, Member } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Dialog } from "../../design/dialog.tsx";
import { Alert, Field, Form, Input } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { AccountTabs } from "../../design/tabs.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useAccount, useAccountAddress, useMe } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { serverTime } from "../../session/clock.ts";
import { texts } from "../../texts.ts";

type Role = Member["role"];
const ROLES: Role[] = ["reader", "editor", "owner"];

/** Who is in the account, and for owners who was invited. */
export function Members() {
  const at = useAccountAddress();
  const isOwner = useAccount()?.myRole === "owner";
  const [isInviting, setIsInviting] = useState(false);
  const pages = usePages({
    queryKey: ["members", at.accountId],
    read: (cursor) => berth.members.list(at, { limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const members = pages.data;
  const { title, invite, name, role, since } = texts.members;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <AccountTabs />
      <div className="head">
        <h1>{title}</h1>
        {isOwner && (
          <button type="button" className="main" onClick={() => setIsInviting(true)}>
            {invite}
          </button>
        )}
      </div>
      <Table caption={title} columns={[name, role, since, texts.service.actions]}>
        <Rows
          items={members}
          keyOf={({ userId }) => userId}
          rowHeight={56}
          columns={4}
          row={(member) => <Cells member={member} isOwner={isOwner} />}
        />
      </Table>
      <More pages={pages} />
      {isOwner && <Invitations />}
      {isInviting && <Invite onClose={() => setIsInviting(false)} />}
    </>
  );
}

function useRefresh() {
  const { accountId } = useAccountAddress();
  return () => {
    void queries.invalidateQueries({ queryKey: ["members", accountId] });
    void queries.invalidateQueries({ queryKey: ["invitations", accountId] });
  };
}

function Cells({ member, isOwner }: { member: Member; isOwner: boolean }) {
  const at = useAccountAddress();
  const me = useMe();
  const refresh = useRefresh();
  const { userId, displayName, email, role, createdAt } = member;
  const update = useMutation({
    mutationFn: (wanted: Role) => berth.members.update(at, userId, { role: wanted }),
    onSettled: refresh,
  });
  const remove = useMutation({ mutationFn: () => berth.members.remove(at, userId), onSettled: refresh });
  return (
    <>
      <th scope="row">
        <bdi>{displayName}</bdi> {email && email !== displayName && <span className="hint">{email}</span>}
      </th>
      <td>
        {isOwner ? (
          <select
            aria-label={texts.members.roleOf(displayName)}
            value={update.isPending ? update.variables : role}
            onChange={({ target }) => update.mutate(target.value as Role)}
          >
            {ROLES.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        ) : (
          role
        )}
        <Alert error={update.error} />
      </td>
      <td>
        <Ago time={createdAt} />
      </td>
      <td>
        {isOwner && userId !== me.id && (
          <Confirm
            text={texts.members.remove}
            about={displayName}
            sentence={texts.members.removeHint}
            action={{ ...remove, mutate: () => remove.mutate() }}
          />
        )}
      </td>
    </>
  );
}

function Invitations() {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const [link, setLink] = useState<string>();
  const invitations = usePages({
    queryKey: ["invitations", at.accountId],
    read: (cursor) => berth.invitations.list(at, { limit: 50 }).page(cursor),
  });
  const withdraw = useMutation({
    mutationFn: (id: string) => berth.invitations.withdraw(at, id),
    onSettled: refresh,
  });
  const resend = useMutation({
    gcTime: 0,
    mutationFn: (id: string) => berth.invitations.resend(at, id),
    onSuccess: (invitation) => setLink(invitation.link),
    onSettled: refresh,
  });
  if (!invitations.data?.length) return <Alert error={invitations.error} />;
  return (
    <section>
      <h2>{texts.members.invited}</h2>
      <ul>
        {invitations.data.map(({ id, email, role, expiresAt }) => (
          <li key={id}>
            {email}, {role}{" "}
            <span className="hint">
              {Date.parse(expiresAt) < serverTime() ? texts.members.expired : texts.members.expires}{" "}
              <Ago time={expiresAt} />
            </span>{" "}
            <button
              type="button"
              className="quiet"
              aria-disabled={resend.isPending}
              onClick={() => resend.isPending || resend.mutate(id)}
            >
              {texts.members.resend}
              <span className="unseen"> {email}</span>
            </button>{" "}
            <button
              type="button"
              className="quiet"
              aria-disabled={withdraw.isPending}
              onClick={() => withdraw.isPending || withdraw.mutate(id)}
            >
              {texts.members.withdraw}
              <span className="unseen"> {email}</span>
            </button>
          </li>
        ))}
      </ul>
      <More pages={invitations} />
      <Alert error={withdraw.error ?? resend.error} />
      {resend.isSuccess && link === undefined && <p role="status">{texts.members.resent}</p>}
      {link !== undefined && <LinkDialog link={link} onClose={() => setLink(undefined)} />}
    </section>
  );
}

/** The link of an invitation that was not mailed. It is nowhere but here. */
function LinkDialog({ link, onClose }: { link: string; onClose: () => void }) {
  const { members } = texts;
  return (
    <Dialog title={members.invite} onClose={onClose}>
      <p role="status">{members.linkHint}</p>
      <Input label={members.link} readOnly value={link} onFocus={({ target }) => target.select()} />
    </Dialog>
  );
}

function Invite({ onClose }: { onClose: () => void }) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const [link, setLink] = useState<string>();
  const invite = useMutation({
    gcTime: 0,
    mutationFn: (request: InviteMemberRequest) => berth.members.invite(at, request),
    onSuccess: (invitation) => {
      refresh();
      if (invitation.link) setLink(invitation.link);
      else onClose();
    },
  });
  const submit = (fields: FormData) =>
    invite.mutate({ email: String(fields.get("email")), role: String(fields.get("role")) as Role });
  const { members } = texts;
  if (link !== undefined) return <LinkDialog link={link} onClose={onClose} />;
  return (
    <Dialog title={members.invite} onClose={onClose}>
      <Form onSubmit={submit} error={invite.error} isBusy={invite.isPending} submit={members.invite}>
        <Input label={members.email} name="email" type="email" required maxLength={254} />
        <Field label={members.role}>
          {(id) => (
            <select id={id} name="role" defaultValue="reader">
              {ROLES.map((role) => (
                <option key={role} value={role}>
                  {role}
                </option>
              ))}
            </select>
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
