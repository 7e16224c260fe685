import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import type { StatementLine, StatementPeriod } from "../../../typescript/src/index.ts";
import { day, dollars, fineDollars } from "../../design/format.ts";
import { Failure, Loading } from "../../design/state.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Amounts } from "./amounts.tsx";
import { DownloadStatement } from "./download-statement.tsx";
import { billingKey } from "./subscription-query.ts";

/** What compute cost in the periods of a month, line by line. */
export function StatementScreen() {
  const at = useAccountAddress();
  const { month } = useParams({ strict: false }) as { month: string };
  const statement = useQuery({
    queryKey: billingKey(at.accountId, "statement", month),
    queryFn: () => berth.statements.get(at, month),
  });
  const { statements } = texts.billing;
  if (statement.isPending) return <Loading />;
  if (!statement.data) return <Failure error={statement.error} retry={() => void statement.refetch()} />;
  const { periods, lines } = statement.data;
  return (
    <>
      <p>
        <Link to="/accounts/$accountId/statements" params={at}>
          {statements.all}
        </Link>
      </p>
      <div className="head">
        <h2>{month}</h2>
        <DownloadStatement month={month} />
      </div>
      {periods.map((period) => (
        <Period
          key={period.periodStart}
          period={period}
          lines={lines.filter(({ periodStart }) => periodStart === period.periodStart)}
        />
      ))}
    </>
  );
}

function Period({ period, lines }: { period: StatementPeriod; lines: StatementLine[] }) {
  const { periodStart, periodEnd, tierId, billed, chargedUsd, invoiceNumber } = period;
  const { statements } = texts.billing;
  return (
    <section>
      <h3>{statements.period(day(periodStart), day(periodEnd), tierId)}</h3>
      <p className="hint">
        {billed ? invoiceNumber && statements.invoice(invoiceNumber) : statements.notBilled}
      </p>
      <Amounts
        caption={statements.period(day(periodStart), day(periodEnd), tierId)}
        format={fineDollars}
        lines={lines.map(({ description, amountUsd, projectName, serviceName, allowanceUsd = 0 }) => ({
          label: [
            serviceName ? `${projectName} / ${serviceName}` : description,
            allowanceUsd > 0 && statements.lessAllowance(fineDollars(allowanceUsd)),
          ]
            .filter(Boolean)
            .join(", "),
          usd: amountUsd,
        }))}
        total={{ label: statements.charged, usd: Number(chargedUsd.toFixed(2)) }}
      />
      <p className="hint">{statements.exact(dollars(chargedUsd))}</p>
    </section>
  );
}
