import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { connectKube } from "../../../services/deployer/kube/client.ts";
import { install } from "../../cluster/setup/install.ts";
import { reach } from "../../cluster/setup/reach.ts";
import { readRun } from "../../support/cluster-run.ts";
import { openDoor } from "../../support/door.ts";
import { judge, print, type Row } from "../row.ts";
import { build } from "./build.ts";
import type { ClusterBench, Kubectl } from "./cluster.ts";
import { failover } from "./failover.ts";
import { imageDeploy } from "./image-deploy.ts";
import { many } from "./many.ts";

// The time Berth takes on a cluster, compared with what the cluster itself takes for the same, in one run.
const benches: ClusterBench[] = [imageDeploy, build, many, failover];

const { values } = parseArgs({ options: { json: { type: "string" }, only: { type: "string" } } });
const settings = await readRun();
const call: Kubectl = (args, input = "") =>
  new Promise((done, fail) => {
    const child = execFile(settings.kubectl, args, { maxBuffer: 16 << 20 }, (error, stdout, stderr) =>
      error ? fail(new Error(`kubectl ${args.join(" ")}: ${stderr || error.message}`)) : done(stdout),
    );
    child.stdin?.end(input);
  });

const { platform, uninstall } = await install(settings, `bench-${randomUUID().slice(0, 8)}`);
const rows: Row[] = [];
try {
  reach(platform);
  const door = await openDoor(platform.origin, platform.ownerToken);
  const wanted = benches.filter(
    ({ names }) => !values.only || names.some((name) => name.includes(values.only!)),
  );
  for (const bench of wanted)
    rows.push(...(await bench.run({ door, kube: connectKube(), settings, call })).map(judge));
} finally {
  await uninstall();
}
print(rows);
if (values.json) await writeFile(values.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(rows.every((row) => row.ok) ? 0 : 1);
