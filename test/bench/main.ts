import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { manyServices } from "./many/many-services.ts";
import { startPlatform } from "./platform.ts";
import { type Bench, judge, print, type Row } from "./row.ts";
import { backups } from "./rows/backups.ts";
import { cli } from "./rows/cli.ts";
import { consoleRow } from "./rows/console.ts";
import { deploy } from "./rows/deploy.ts";
import { events } from "./rows/events.ts";
import { feed } from "./rows/feed.ts";
import { machine } from "./rows/machine.ts";
import { mcp } from "./rows/mcp.ts";
import { notify } from "./rows/notify.ts";
import { reads } from "./rows/reads.ts";
import { roll } from "./rows/roll.ts";
import { scale } from "./rows/scale.ts";
import { spawning } from "./rows/spawn.ts";
import { start } from "./rows/start.ts";
import { streams } from "./rows/streams.ts";
import { unpack } from "./rows/unpack.ts";
import { usage } from "./rows/usage.ts";
import { webhooks } from "./rows/webhooks.ts";
import { writes } from "./rows/writes.ts";

// Speed as ratios of two things, measured alternately in one run; absolute figures are for orientation.
const benches: Bench[] = [
  start,
  reads,
  machine,
  mcp,
  writes,
  deploy,
  cli,
  consoleRow,
  backups,
  spawning,
  roll,
  events,
  streams,
  notify,
  scale,
  feed,
  unpack,
  usage,
  webhooks,
  manyServices,
];

const { values } = parseArgs({
  options: { json: { type: "string" }, only: { type: "string" }, compare: { type: "string" } },
});

const parts = values.only?.split(",") ?? [""];
const isAsked = (name: string) => parts.some((part) => name.includes(part));
const wanted = benches.filter(({ names }) => names.some(isAsked));
if (wanted.length === 0) {
  process.stderr.write(
    `There is no row ${values.only}. Rows: ${benches.flatMap((b) => b.names).join(", ")}\n`,
  );
  process.exit(2);
}

const earlier = values.compare ? (JSON.parse(await readFile(values.compare, "utf8")) as Row[]) : [];
const width = Math.max(...wanted.flatMap(({ names }) => names).map((name) => name.length));
const platform = await startPlatform();
const rows: Row[] = [];
try {
  for (const bench of wanted) {
    const begun = performance.now();
    const measured = (await bench.run(platform)).map(judge);
    const asked = measured.filter(({ name }) => isAsked(name));
    print(asked, { earlier, width, seconds: (performance.now() - begun) / 1_000 });
    rows.push(...asked);
  }
} finally {
  await platform.stop();
}

if (values.json) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(rows.every((row) => row.ok) ? 0 : 1);
