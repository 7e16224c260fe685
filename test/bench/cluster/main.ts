import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { readRun } from "../../../deploy/cluster/run-settings.ts";
import { leadNamesTo } from "../../cluster/domain.ts";
import { install } from "../../cluster/install.ts";
import { connectKubectl } from "../../cluster/kubectl.ts";
import { openDoor } from "../../door.ts";
import { judge, type Row } from "../row.ts";
import { archiveBuild } from "./archive-build.ts";
import { imageDeploy } from "./image-deploy.ts";
import type { ClusterBench } from "./stage.ts";
import { twentyAtOnce } from "./twenty-at-once.ts";

// Speed on a cluster, as ratios of two things measured in one run, in turns.
const benches: ClusterBench[] = [imageDeploy, archiveBuild, twentyAtOnce];

const { values } = parseArgs({ options: { json: { type: "string" }, only: { type: "string" } } });
const wanted = benches.filter(({ name }) => !values.only || name.includes(values.only));
const run = await readRun();
const { platform, uninstall } = await install(run, `bench-${Date.now() % 1e6}`);
const rows: Row[] = [];
try {
  leadNamesTo(platform.appsHost);
  const door = await openDoor(platform.origin, platform.ownerToken);
  const kubectl = await connectKubectl();
  for (const bench of wanted) rows.push(judge(await bench.run({ run, door, kubectl })));
} finally {
  await uninstall();
}
for (const { name, value, unit, goal, ok } of rows)
  console.log(`${ok ? "ok  " : "MISS"}  ${name.padEnd(16)}  ${value} ${unit}  (goal ${goal})`);
if (values.json) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(rows.length > 0 && rows.every((row) => row.ok) ? 0 : 1);
