import { useState } from "react";
import type { ComputeUsage, ComputeUsageLine } from "../../../typescript/src/index.ts";
import { exactDollars, exactly, lasting } from "../../design/format.ts";
import { Rows } from "../../design/rows.tsx";
import { Table } from "../../design/table.tsx";
import { texts } from "../../texts.ts";

type TimeSpansProps = { lines: ComputeUsageLine[]; usage: ComputeUsage };

/** The time spans that the amounts are made of, with all decimals. */
export function TimeSpans({ lines, usage }: TimeSpansProps) {
  const [isOpen, setIsOpen] = useState(false);
  const { timeSpans, spanColumns } = texts.billing.usage;
  const nameOf = (id: string) => usage.services.find(({ serviceId }) => serviceId === id)?.serviceName ?? id;
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>{timeSpans}</summary>
      {isOpen && (
        <Table caption={timeSpans} columns={spanColumns}>
          <Rows
            items={lines}
            keyOf={({ serviceId, startedAt }) => `${serviceId} ${startedAt}`}
            rowHeight={44}
            columns={spanColumns.length}
            row={(line) => <Cells line={line} service={nameOf(line.serviceId)} />}
          />
        </Table>
      )}
    </details>
  );
}

function Cells({ line, service }: { line: ComputeUsageLine; service: string }) {
  const { startedAt, endedAt, size, replicas, seconds, nanoUsdPerSecond, accruedUsd } = line;
  const { running, times } = texts.billing.usage;
  return (
    <>
      <th scope="row">{service}</th>
      <td>{exactly(startedAt)}</td>
      <td>{endedAt ? exactly(endedAt) : running}</td>
      <td>{times(replicas, size)}</td>
      <td className="number">{lasting(seconds * 1_000)}</td>
      <td className="number">{exactDollars(nanoUsdPerSecond / 1e9)}</td>
      <td className="number">{exactDollars(accruedUsd)}</td>
    </>
  );
}
