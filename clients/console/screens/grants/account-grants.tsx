import { useMutation } from "@tanstack/react-query";
import type { AccountGrant } from "../../../typescript/src/index.ts";
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

/** What members have connected to the account, for its owners. */
export function AccountGrants() {
  const at = useAccountAddress();
  const pages = usePages({
    queryKey: ["account-grants", at.accountId],
    read: (cursor) => berth.grants.list(at, { limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const grants = pages.data;
  const { title, hint, name, member, access, since, used, empty } = texts.applications;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <AccountTabs />
      <h1>{title}</h1>
      <p className="hint">{hint}</p>
      {grants.length === 0 ? (
        <Empty title={empty} />
      ) : (
        <Table caption={title} columns={[name, member, access, since, used, texts.service.actions]}>
          <Rows
            items={grants}
            keyOf={({ id }) => id}
            rowHeight={48}
            columns={6}
            row={(grant) => <Cells grant={grant} />}
          />
        </Table>
      )}
      <More pages={pages} />
    </>
  );
}

function Cells({ grant }: { grant: AccountGrant }) {
  const at = useAccountAddress();
  const { id, clientName, clientId, displayName, role, grantedAt, lastUsedAt } = grant;
  const revoke = useMutation({
    mutationFn: () => berth.grants.revoke(at, id),
    onSettled: () => queries.invalidateQueries({ queryKey: ["account-grants", at.accountId] }),
  });
  return (
    <>
      <th scope="row">
        <bdi>{clientName}</bdi> <code>{clientId}</code>
      </th>
      <td>
        <bdi>{displayName}</bdi>
      </td>
      <td>{role}</td>
      <td>
        <Ago time={grantedAt} />
      </td>
      <td>
        <Ago time={lastUsedAt} />
      </td>
      <td>
        <Confirm
          text={texts.tokens.revoke}
          about={`${clientName}, ${displayName}`}
          sentence={texts.applications.revokeHint}
          action={{ ...revoke, mutate: () => revoke.mutate() }}
        />
      </td>
    </>
  );
}
