import type {
  PostgresStatistics,
  RedisStatistics,
  Statistics,
} from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import { clean } from "../../terminal/clean.ts";
import { ago, bytes, count, duration } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";
import type { Terminal } from "../../terminal/terminal.ts";

export const stats = command({
  name: "addons stats",
  summary: "Show what is in an addon, and what its server does",
  args: "ADDON",
  arity: [1, 1],
  about: [
    "Read from the server at that moment: connections, size and cache; of PostgreSQL the statements that run, the largest tables, indexes that no query uses, and the statements that took the most time; of Redis its memory, keys and slow commands. Texts of statements may contain data.",
  ],
  examples: [
    ["addons stats db", "as tables"],
    ["addons stats db --json", "with all that the API answers"],
  ],
  async run({ args: [name] }, ctx) {
    const { io, signal } = ctx;
    const at = { ...(await ctx.at.environment()), service: name! };
    const found = await (await ctx.berth()).services.statistics(at, { signal });
    if (io.json) return io.outJson(found);
    const { version, uptimeSeconds, postgres, redis } = found;
    io.note(
      `  ${postgres ? "PostgreSQL" : "Redis"} ${clean(version)}, for ${duration(uptimeSeconds * 1_000)}`,
    );
    printTable(
      io,
      ["OF THE ADDON", ""],
      [
        ["connections", connectionsOf(found)],
        ...(postgres ? rowsOfPostgres(postgres) : []),
        ...(redis ? rowsOfRedis(redis) : []),
      ],
    );
    if (postgres) printPostgres(io, postgres);
    if (redis) printSlow(io, redis);
    return undefined;
  },
});

function connectionsOf({ connections }: Statistics): string {
  const { open, max, active, idleInTransaction } = connections;
  const more = [
    ...(active ? [`${active} active`] : []),
    ...(idleInTransaction ? [`${idleInTransaction} idle in a transaction`] : []),
  ];
  return `${open} of ${max}${more.length > 0 ? ` (${more.join(", ")})` : ""}`;
}

const percent = (share: number | undefined) =>
  share === undefined ? "nothing read yet" : `${(share * 100).toFixed(1)} %`;

const rowsOfPostgres = ({ sizeBytes, cacheHitRatio, ...counted }: PostgresStatistics) => [
  ["size", bytes(sizeBytes)],
  ["read from memory", percent(cacheHitRatio)],
  ["commits", String(counted.commits)],
  ["rollbacks", String(counted.rollbacks)],
  ["deadlocks", String(counted.deadlocks)],
];

const rowsOfRedis = ({ memory, keys, hitRatio, expired, evicted, commandsPerSecond }: RedisStatistics) => [
  [
    "memory",
    memory.maxBytes === undefined
      ? bytes(memory.usedBytes)
      : `${bytes(memory.usedBytes)} of ${bytes(memory.maxBytes)}`,
  ],
  ["keys", String(keys)],
  ["reads that found their key", percent(hitRatio)],
  ["expired", String(expired)],
  ["evicted", String(evicted)],
  ["commands per second", String(commandsPerSecond)],
];

function printPostgres(io: Terminal, found: PostgresStatistics): void {
  const now = Date.now();
  printSection(
    io,
    ["PID", "FOR", "STATE", "WAITS FOR", "STATEMENT"],
    found.running.map(({ pid, seconds, state, wait = "", blockedBy, text }) => [
      String(pid),
      duration(seconds * 1_000),
      state.replaceAll("_", " "),
      blockedBy.length > 0 ? `${wait} of ${blockedBy.join(", ")}` : wait,
      oneLine(text),
    ]),
  );
  printSection(
    io,
    ["TABLE", "SIZE", "ROWS", "DEAD", "READ WHOLE", "BY INDEX", "VACUUMED"],
    found.tables.map(({ name, sizeBytes, rows, deadRows, seqScans, indexScans, lastVacuumAt }) => [
      oneLine(name),
      bytes(sizeBytes),
      ...[rows, deadRows, seqScans, indexScans].map(String),
      lastVacuumAt === undefined ? "" : ago(lastVacuumAt, now),
    ]),
  );
  printSection(
    io,
    ["UNUSED INDEX", "TABLE", "SIZE"],
    found.unusedIndexes.map(({ name, table, sizeBytes }) => [
      oneLine(name),
      oneLine(table),
      bytes(sizeBytes),
    ]),
  );
  printSection(
    io,
    ["TOTAL", "CALLS", "MEAN", "ROWS", "STATEMENT"],
    found.statements.map(({ text, calls, totalSeconds, meanMilliseconds, rows }) => [
      duration(totalSeconds * 1_000),
      String(calls),
      `${meanMilliseconds.toFixed(1)} ms`,
      String(rows),
      oneLine(text),
    ]),
  );
  if (found.statementsReason) io.note(`  ${found.statementsReason}`);
}

function printSlow(io: Terminal, { slow }: RedisStatistics): void {
  const now = Date.now();
  printSection(
    io,
    ["SLOW COMMAND", "TOOK", "WITH", "WHEN"],
    slow.map(({ command, microseconds, arguments: given, at }) => [
      oneLine(command),
      `${(microseconds / 1_000).toFixed(1)} ms`,
      count(given, "argument"),
      ago(at, now),
    ]),
  );
}

function printSection(io: Terminal, head: string[], rows: string[][]): void {
  if (rows.length === 0) return;
  io.out("");
  printTable(io, head, rows);
}

/** Returns a text of somebody's database as it can be shown in a line. */
const oneLine = (text: string) => clean(text.replaceAll(/\s/g, " ")).replaceAll(/ {2,}/g, " ").trim();
