import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type {
  Statistics as Found,
  PostgresStatistics,
  RedisStatistics,
  ServiceAddress,
} from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { lasting, sized } from "../../design/format.ts";
import { Rows } from "../../design/rows.tsx";
import { Ago, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const ROW_HEIGHT = 52;

/** What the server of an addon does at the moment at which it is read: when the screen opens, and on request. */
export function Statistics({ at }: { at: ServiceAddress }) {
  const read = useQuery({
    queryKey: ["statistics", at.environmentId, at.service],
    queryFn: () => berth.services.statistics(at),
    staleTime: 0,
    retry: false,
  });
  const { title, again } = texts.statistics;
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p className="actions">
        <button
          type="button"
          aria-disabled={read.isFetching}
          onClick={() => read.isFetching || void read.refetch()}
        >
          {again}
        </button>
      </p>
      {read.isPending && <Loading />}
      <Alert error={read.error} />
      {read.data && <Facts found={read.data} />}
      {read.data?.postgres && <OfPostgres found={read.data.postgres} />}
      {read.data?.redis && <OfRedis found={read.data.redis} />}
    </section>
  );
}

function Facts({ found: { readAt, connections, postgres, redis } }: { found: Found }) {
  const { facts, of, percent } = texts.statistics;
  const cache = postgres ? postgres.cacheHitRatio : redis?.hitRatio;
  const shown: [string, string | undefined][] = [
    [facts.connections, of(String(connections.open), String(connections.max))],
    [facts.idle, connections.idleInTransaction ? String(connections.idleInTransaction) : undefined],
    [facts.size, postgres && sized(postgres.sizeBytes)],
    [facts.memory, redis && memoryOf(redis)],
    [facts.keys, redis && String(redis.keys)],
    [facts.evicted, redis && String(redis.evicted)],
    [postgres ? facts.cache : facts.hits, cache === undefined ? undefined : percent(cache)],
    [facts.deadlocks, postgres?.deadlocks ? String(postgres.deadlocks) : undefined],
  ];
  return (
    <dl className="facts narrow">
      {shown.map(
        ([label, value]) =>
          value !== undefined && (
            <div className="pair" key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
      <div className="pair">
        <dt>{facts.read}</dt>
        <dd>
          <Ago time={readAt} />
        </dd>
      </div>
    </dl>
  );
}

function memoryOf({ memory: { usedBytes, maxBytes } }: RedisStatistics): string {
  return maxBytes === undefined ? sized(usedBytes) : texts.statistics.of(sized(usedBytes), sized(maxBytes));
}

function OfPostgres({ found }: { found: PostgresStatistics }) {
  const { running, tables, statements, noneRuns, states } = texts.statistics;
  return (
    <>
      <h3>{running.title}</h3>
      {found.running.length === 0 && <p className="hint">{noneRuns}</p>}
      <List
        {...running}
        items={found.running.map((one) => ({ ...one, key: String(one.pid) }))}
        row={({ pid, seconds, state, wait, blockedBy, text }) => (
          <>
            <th scope="row">{pid}</th>
            <td className="number">{lasting(seconds * 1_000)}</td>
            <td>
              {states[state]} {wait && <span className="hint">{wait}</span>}{" "}
              {blockedBy.length > 0 && (
                <span className="hint bad">{running.blocked(blockedBy.join(", "))}</span>
              )}
            </td>
            <td>
              <code className="statement">{text}</code>
            </td>
          </>
        )}
      />
      <h3>{tables.title}</h3>
      <List
        {...tables}
        items={found.tables.map((one) => ({ ...one, key: one.name }))}
        row={({ name, sizeBytes, rows, seqScans, indexScans }) => (
          <>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td className="number">{sized(sizeBytes)}</td>
            <td className="number">{rows}</td>
            <td className="number">{seqScans}</td>
            <td className="number">{indexScans}</td>
          </>
        )}
      />
      <h3>{statements.title}</h3>
      {found.statementsReason && <p className="hint">{found.statementsReason}</p>}
      <List
        {...statements}
        items={found.statements.map((one, index) => ({ ...one, key: String(index) }))}
        row={({ text, calls, totalSeconds, meanMilliseconds }) => (
          <>
            <th scope="row">
              <code className="statement">{text}</code>
            </th>
            <td className="number">{lasting(totalSeconds * 1_000)}</td>
            <td className="number">{calls}</td>
            <td className="number">{statements.milliseconds(meanMilliseconds)}</td>
          </>
        )}
      />
    </>
  );
}

function OfRedis({ found: { slow } }: { found: RedisStatistics }) {
  const { commands, statements } = texts.statistics;
  return (
    <>
      <h3>{commands.title}</h3>
      {slow.length === 0 && <p className="hint">{commands.none}</p>}
      <List
        {...commands}
        items={slow.map((one, index) => ({ ...one, key: String(index) }))}
        row={({ command, microseconds, arguments: given, at }) => (
          <>
            <th scope="row">
              <code>{command}</code>
            </th>
            <td className="number">{statements.milliseconds(microseconds / 1_000)}</td>
            <td className="number">{given}</td>
            <td>
              <Ago time={at} />
            </td>
          </>
        )}
      />
    </>
  );
}

type ListProps<T> = {
  title: string;
  columns: readonly string[];
  items: T[];
  row: (item: T) => ReactNode;
};

function List<T extends { key: string }>({ title, columns, items, row }: ListProps<T>) {
  if (items.length === 0) return null;
  return (
    <Table caption={title} columns={columns}>
      <Rows
        items={items}
        keyOf={({ key }) => key}
        rowHeight={ROW_HEIGHT}
        columns={columns.length}
        row={row}
      />
    </Table>
  );
}
