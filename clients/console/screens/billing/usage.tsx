import { useQuery } from "@tanstack/react-query";
import type { ComputeUsage, ServiceUsage } from "../../../typescript/src/index.ts";
import { day, fineDollars } from "../../design/format.ts";
import { Ago, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Amounts } from "./amounts.tsx";
import { Chart, restOf, type Series } from "./chart.tsx";
import { daysOf } from "./days.ts";
import { SpendLimit } from "./spend-limit.tsx";
import { billingKey } from "./subscription-query.ts";
import { TimeSpans } from "./time-spans.tsx";

/** As many services have their own part of the bars: more could not be told apart by colour. */
const MOST_SERIES = 4;
/** Of the time spans of a period: a page of a hundred is a request. */
const MOST_LINES = 1_000;

/** What compute of the running period costs, how that came about, and what it will come to. */
export function Usage() {
  const at = useAccountAddress();
  const usage = useQuery({
    queryKey: billingKey(at.accountId, "usage"),
    queryFn: () => berth.usage.get(at),
  });
  if (usage.isPending) return <Loading />;
  if (!usage.data) return <Failure error={usage.error} retry={() => void usage.refetch()} />;
  const { periodStart, periodEnd, asOf, services } = usage.data;
  const says = texts.billing.usage;
  return (
    <>
      <p>
        {says.period(day(periodStart), day(periodEnd))}{" "}
        <span className="hint">
          {says.asOf} <Ago time={asOf} />
        </span>
      </p>
      <Explained usage={usage.data} />
      <h2>{says.byDay}</h2>
      <ByDay usage={usage.data} />
      <h2>{says.byService}</h2>
      {services.length === 0 ? <p>{says.nothingRan}</p> : <ByService services={services} />}
      <SpendLimit />
    </>
  );
}

function Explained({ usage }: { usage: ComputeUsage }) {
  const { accruedUsd, allowance, credit, adjustmentUsd, netUsd, projectedNetUsd, owedUsd, services } = usage;
  const { usage: says } = texts.billing;
  const covered = Object.entries(allowance.byType).filter(([, { coveredServiceId }]) => coveredServiceId);
  const nameOf = (id: string) => services.find(({ serviceId }) => serviceId === id)?.serviceName ?? id;
  return (
    <>
      <Amounts
        caption={says.caption}
        format={fineDollars}
        showsZero
        lines={[
          { label: says.accrued, usd: accruedUsd },
          ...covered.map(([type, { appliedUsd, coveredServiceId }]) => ({
            label: says.allowance(type, nameOf(coveredServiceId)),
            usd: 0 - appliedUsd,
          })),
          { label: says.adjustment, usd: adjustmentUsd || undefined },
          { label: says.credit, usd: credit.includedUsd > 0 ? 0 - credit.appliedUsd : undefined },
        ]}
        total={{ label: says.net, usd: netUsd }}
      />
      <p>
        {says.projected(fineDollars(projectedNetUsd), day(usage.periodEnd))}{" "}
        {credit.includedUsd > 0 &&
          says.creditLeft(fineDollars(credit.remainingUsd), fineDollars(credit.includedUsd))}{" "}
        {allowance.eligible ? says.allowanceHint : says.noAllowance}
      </p>
      {owedUsd > 0 && <p className="note">{says.owed(fineDollars(owedUsd))}</p>}
    </>
  );
}

function ByDay({ usage }: { usage: ComputeUsage }) {
  const at = useAccountAddress();
  const lines = useQuery({
    queryKey: billingKey(at.accountId, "usage-lines", usage.asOf),
    queryFn: () => berth.usage.lines(at, { limit: 100 }).all(MOST_LINES),
    placeholderData: (before) => before,
  });
  if (lines.isPending) return <Loading />;
  if (!lines.data) return <Failure error={lines.error} retry={() => void lines.refetch()} />;
  const days = daysOf(lines.data, usage);
  const series: Series[] = usage.services
    .toSorted((a, b) => b.accruedUsd - a.accruedUsd)
    .slice(0, MOST_SERIES)
    .map(({ serviceId, serviceName, projectName }) => ({
      id: serviceId,
      name: `${projectName} / ${serviceName}`,
    }));
  const hasRest = usage.services.length > series.length;
  const { usage: says } = texts.billing;
  if (usage.services.length === 0) return <p>{says.nothingRan}</p>;
  return (
    <>
      {lines.data.length >= MOST_LINES && <p className="note">{says.leftOut(MOST_LINES)}</p>}
      <Chart days={days} series={series} hasRest={hasRest} label={day} />
      <details>
        <summary>{says.asTable}</summary>
        <Table
          caption={says.byDay}
          columns={[says.day, says.total, ...series.map(({ name }) => name), ...(hasRest ? [says.rest] : [])]}
        >
          <tbody>
            {days.map((one) => (
              <tr key={one.day}>
                <th scope="row">{day(one.day)}</th>
                <td className="number">{fineDollars(one.total)}</td>
                {series.map(({ id }) => (
                  <td key={id} className="number">
                    {fineDollars(one.byService.get(id) ?? 0)}
                  </td>
                ))}
                {hasRest && <td className="number">{fineDollars(restOf(one, series))}</td>}
              </tr>
            ))}
          </tbody>
        </Table>
      </details>
      <TimeSpans lines={lines.data} usage={usage} />
    </>
  );
}

function ByService({ services }: { services: ServiceUsage[] }) {
  const { usage: says } = texts.billing;
  return (
    <Table caption={says.byService} columns={says.serviceColumns}>
      <tbody>
        {services.map(({ serviceId, serviceName, projectName, type, accruedUsd, allowanceAppliedUsd }) => (
          <tr key={serviceId}>
            <th scope="row">{serviceName}</th>
            <td>{projectName}</td>
            <td>{texts.types[type]}</td>
            <td className="number">{fineDollars(accruedUsd)}</td>
            <td className="number">{fineDollars(allowanceAppliedUsd)}</td>
            <td className="number">{fineDollars(accruedUsd - allowanceAppliedUsd)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
