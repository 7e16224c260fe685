import { Link } from "@tanstack/react-router";
import { day, dollars, fineDollars } from "../../design/format.ts";
import { More } from "../../design/more.tsx";
import { Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { usePages } from "../../live/pages.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { DownloadStatement } from "./download-statement.tsx";
import { billingKey } from "./subscription-query.ts";

/** The months for which it is settled what compute cost. */
export function Statements() {
  const at = useAccountAddress();
  const pages = usePages({
    queryKey: billingKey(at.accountId, "statements"),
    read: (cursor) => berth.statements.list(at, { limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure error={pages.error} retry={() => void pages.refetch()} />;
  const months = pages.data;
  const { columns, empty, emptyHint } = texts.billing.statements;
  if (months.length === 0)
    return (
      <Empty title={empty}>
        <p>{emptyHint}</p>
      </Empty>
    );
  return (
    <>
      <Table caption={texts.billing.tabs.statements} columns={columns}>
        <tbody>
          {months.map(({ month, periodStart, periodEnd, usageUsd, chargedUsd }) => (
            <tr key={month}>
              <th scope="row">
                <Link to="/accounts/$accountId/statements/$month" params={{ ...at, month }}>
                  {month}
                </Link>
              </th>
              <td>
                {day(periodStart)} – {day(periodEnd)}
              </td>
              <td className="number">{fineDollars(usageUsd)}</td>
              <td className="number">{dollars(chargedUsd)}</td>
              <td>
                <DownloadStatement month={month} />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
      <More pages={pages} />
    </>
  );
}
