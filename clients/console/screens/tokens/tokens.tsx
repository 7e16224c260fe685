import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { CreatedToken, CreateTokenRequest, Token } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form, Input } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { MeTabs } from "../../design/tabs.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useMe } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const KEY = ["tokens"];

/** The user's own tokens: made once, shown once. */
export function Tokens() {
  const [isCreating, setIsCreating] = useState(false);
  const pages = usePages({
    queryKey: KEY,
    read: (cursor) => berth.tokens.list({ limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const tokens = pages.data;
  const { title, create, empty, emptyHint, name, reach, used, expires } = texts.tokens;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <MeTabs />
      <div className="head">
        <h1>{title}</h1>
        <button type="button" className="main" onClick={() => setIsCreating(true)}>
          {create}
        </button>
      </div>
      {tokens.length === 0 ? (
        <Empty title={empty}>
          <p>{emptyHint}</p>
        </Empty>
      ) : (
        <div className="table">
          <table>
            <caption className="unseen">{title}</caption>
            <thead>
              <tr>
                {[name, reach, used, expires, texts.service.actions].map((column) => (
                  <th key={column} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <Rows
              items={tokens}
              keyOf={({ id }) => id}
              rowHeight={44}
              columns={5}
              row={(token) => <Cells token={token} />}
            />
          </table>
        </div>
      )}
      <More pages={pages} />
      {isCreating && <NewToken onClose={() => setIsCreating(false)} />}
    </>
  );
}

function Cells({ token }: { token: Token }) {
  const { accounts } = useMe();
  const { id, name, lastFour, accountId, roleCap, lastUsedAt, expiresAt } = token;
  const revoke = useMutation({
    mutationFn: () => berth.tokens.revoke(id),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const account = accountId === undefined ? undefined : accounts.find((one) => one.id === accountId)?.handle;
  return (
    <>
      <th scope="row">
        {name} <code>…{lastFour}</code>
      </th>
      <td>{[account ?? accountId ?? texts.tokens.everywhere, roleCap].filter(Boolean).join(", ")}</td>
      <td>{lastUsedAt ? <Ago time={lastUsedAt} /> : texts.tokens.never}</td>
      <td>
        <Ago time={expiresAt} />
      </td>
      <td>
        <Confirm
          text={texts.tokens.revoke}
          about={name}
          sentence={texts.tokens.revokeHint}
          action={{ ...revoke, mutate: () => revoke.mutate() }}
        />
      </td>
    </>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const { accounts } = useMe();
  const [made, setMade] = useState<CreatedToken>();
  const create = useMutation({
    // The token is nowhere but in this dialog.
    gcTime: 0,
    mutationFn: async (request: CreateTokenRequest) => setMade(await berth.tokens.create(request)),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const submit = (fields: FormData) => {
    const text = (name: string) => String(fields.get(name) ?? "");
    create.mutate({
      name: text("name"),
      expiresInDays: Number(text("days")),
      ...(text("role") !== "" && { roleCap: text("role") as Role }),
      ...(text("account") !== "" && { accountId: text("account") }),
    });
  };
  const { tokens } = texts;
  if (made)
    return (
      <Dialog title={tokens.made(made.name)} onClose={onClose}>
        <p role="status">{tokens.once}</p>
        <Input label={tokens.token} readOnly value={made.token} onFocus={({ target }) => target.select()} />
      </Dialog>
    );
  return (
    <Dialog title={tokens.create} onClose={onClose}>
      <Form onSubmit={submit} error={create.error} isBusy={create.isPending} submit={texts.create}>
        <Input label={tokens.name} hint={tokens.nameHint} name="name" required maxLength={80} />
        <Input label={tokens.days} name="days" type="number" min={1} required defaultValue={30} />
        <Field label={tokens.account}>
          {(id) => (
            <select id={id} name="account" defaultValue="">
              <option value="">{tokens.everywhere}</option>
              {accounts.map((account) => (
                <option key={account.id} value={account.id}>
                  {account.handle}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={tokens.role}>
          {(id) => (
            <select id={id} name="role" defaultValue="">
              <option value="">{tokens.ownRole}</option>
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

const ROLES = ["reader", "editor", "owner"] as const;
type Role = (typeof ROLES)[number];
