import type { Invoice } from "../../../typescript/src/index.ts";
import { day, dollars } from "../../design/format.ts";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { usePages } from "../../live/pages.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { billingKey } from "./subscription-query.ts";

/** All invoices of the account, also those of earlier subscriptions. */
export function Invoices() {
  const at = useAccountAddress();
  const pages = usePages({
    queryKey: billingKey(at.accountId, "invoices"),
    read: (cursor) => berth.invoices.list(at, { limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure error={pages.error} retry={() => void pages.refetch()} />;
  const invoices = pages.data;
  const { columns, empty, emptyHint } = texts.billing.invoices;
  if (invoices.length === 0)
    return (
      <Empty title={empty}>
        <p>{emptyHint}</p>
      </Empty>
    );
  return (
    <>
      <Table caption={texts.billing.tabs.invoices} columns={columns}>
        <Rows
          items={invoices}
          keyOf={({ id }) => id}
          rowHeight={44}
          columns={columns.length}
          row={(invoice) => <Cells invoice={invoice} />}
        />
      </Table>
      <More pages={pages} />
    </>
  );
}

function Cells({ invoice }: { invoice: Invoice }) {
  const { id, number, kind, periodStart, periodEnd, totalUsd, taxUsd, status, pdfUrl, hostedUrl } = invoice;
  const name = number ?? id;
  const { kinds, statuses, pdf, pay, withTax } = texts.billing.invoices;
  const [symbol, word, tone] = statuses[status];
  return (
    <>
      <th scope="row">{name}</th>
      <td>{kinds[kind]}</td>
      <td>
        {day(periodStart)} – {day(periodEnd)}
      </td>
      <td className="number">
        {dollars(totalUsd)} {taxUsd > 0 && <span className="hint">{withTax(dollars(taxUsd))}</span>}
      </td>
      <td>
        <span className={`status ${tone}`}>
          <span aria-hidden="true">{symbol}</span> {word}
        </span>
      </td>
      <td>
        {pdfUrl && (
          <a href={pdfUrl} target="_blank" rel="noreferrer">
            {pdf}
            <span className="unseen"> {name}</span>
          </a>
        )}{" "}
        {status === "open" && hostedUrl && (
          <a href={hostedUrl} target="_blank" rel="noreferrer">
            {pay}
            <span className="unseen"> {name}</span>
          </a>
        )}
      </td>
    </>
  );
}
