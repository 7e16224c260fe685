import { useMutation, useQuery } from "@tanstack/react-query";
import type { McpGrant } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { MeTabs } from "../../design/tabs.tsx";
import { queries } from "../../live/queries.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const KEY = ["my-grants"];

/** The applications to which the user gave access: one row for each, as its access ends in all accounts at once. */
export function Applications() {
  const grants = useQuery({ queryKey: KEY, queryFn: () => berth.me.listGrants() });
  if (grants.isPending) return <Loading />;
  if (!grants.data) return <Failure isScreen error={grants.error} retry={() => void grants.refetch()} />;
  const clients = [...new Set(grants.data.map(({ clientId }) => clientId))];
  const { title, hint, name, access, empty } = texts.applications;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <MeTabs />
      <h1>{title}</h1>
      <p className="hint">{hint}</p>
      {clients.length === 0 ? (
        <Empty title={empty} />
      ) : (
        <Table caption={title} columns={[name, access, texts.service.actions]}>
          <tbody>
            {clients.map((clientId) => (
              <Row key={clientId} granted={grants.data.filter((grant) => grant.clientId === clientId)} />
            ))}
          </tbody>
        </Table>
      )}
    </>
  );
}

function Row({ granted }: { granted: McpGrant[] }) {
  const { clientId, clientName } = granted[0] as McpGrant;
  const revoke = useMutation({
    mutationFn: () => berth.me.revokeGrants(clientId),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <tr>
      <th scope="row">
        <bdi>{clientName}</bdi> <code>{clientId}</code>
      </th>
      <td>
        <ul className="bare">
          {granted.map(({ accountId, accountHandle, role, grantedAt }) => (
            <li key={accountId}>
              {accountHandle}, {role}, <Ago time={grantedAt} />
            </li>
          ))}
        </ul>
      </td>
      <td>
        <Confirm
          text={texts.tokens.revoke}
          about={clientName}
          sentence={texts.applications.revokeHint}
          action={{ ...revoke, mutate: () => revoke.mutate() }}
        />
      </td>
    </tr>
  );
}
