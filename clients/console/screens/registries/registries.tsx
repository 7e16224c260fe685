import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Registry } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { AccountTabs } from "../../design/tabs.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { type Login, LoginDialog } from "./login-dialog.tsx";

const keyOf = (accountId: string) => ["registries", accountId];

/** The registries from which the account's private images are pulled, for its owners. */
export function Registries() {
  const at = useAccountAddress();
  const [isAdding, setIsAdding] = useState(false);
  const pages = usePages({
    queryKey: keyOf(at.accountId),
    read: (cursor) => berth.registries.list(at, { limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const registries = pages.data;
  const { title, hint, add, empty, emptyHint, columns } = texts.registries;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <AccountTabs />
      <div className="head">
        <h1>{title}</h1>
        <button type="button" className="main" onClick={() => setIsAdding(true)}>
          {add}
        </button>
      </div>
      <p className="hint">{hint}</p>
      {registries.length === 0 ? (
        <Empty title={empty}>
          <p>{emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth registries add HOST --user USER</code>
          </p>
        </Empty>
      ) : (
        <Table caption={title} columns={columns}>
          <Rows
            items={registries}
            keyOf={({ id }) => id}
            rowHeight={48}
            columns={columns.length}
            row={(registry) => <Cells registry={registry} />}
          />
        </Table>
      )}
      <More pages={pages} />
      {isAdding && <NewLogin onClose={() => setIsAdding(false)} />}
    </>
  );
}

function useRefresh() {
  const { accountId } = useAccountAddress();
  return () => queries.invalidateQueries({ queryKey: keyOf(accountId) });
}

function NewLogin({ onClose }: { onClose: () => void }) {
  const at = useAccountAddress();
  const refresh = useRefresh();
  const create = useMutation({
    // The token is kept nowhere.
    gcTime: 0,
    mutationFn: (login: Login) => berth.registries.create(at, login),
    onSuccess: async () => {
      await refresh();
      onClose();
    },
  });
  const { add } = texts.registries;
  return <LoginDialog title={add} submit={texts.create} action={create} onClose={onClose} />;
}

function Cells({ registry }: { registry: Registry }) {
  const { id, host, user, createdAt, rotatedAt } = registry;
  const at = useAccountAddress();
  const refresh = useRefresh();
  const [isReplacing, setIsReplacing] = useState(false);
  const replace = useMutation({
    gcTime: 0,
    mutationFn: ({ user, token }: Login) => berth.registries.update(at, id, { user, token }),
    onSuccess: async () => {
      await refresh();
      setIsReplacing(false);
    },
  });
  const remove = useMutation({ mutationFn: () => berth.registries.delete(at, id), onSettled: refresh });
  const words = texts.registries;
  return (
    <>
      <th scope="row">{host}</th>
      <td>{user}</td>
      <td>
        <Ago time={rotatedAt ?? createdAt} />
      </td>
      <td>
        <button type="button" className="quiet" onClick={() => setIsReplacing(true)}>
          {words.replace}
          <span className="unseen"> {host}</span>
        </button>{" "}
        <Confirm
          text={texts.delete}
          about={host}
          sentence={words.deleteHint}
          action={{ ...remove, mutate: () => remove.mutate() }}
        />
        {isReplacing && (
          <LoginDialog
            title={words.replaceOf(host)}
            submit={words.replace}
            registry={registry}
            action={replace}
            onClose={() => setIsReplacing(false)}
          />
        )}
      </td>
    </>
  );
}
