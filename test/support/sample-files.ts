import { globSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "../../services/kit/testing/random.ts";

/** Test files that are long by nature, by what makes them so. */
const LONG = {
  "processes and servers that fail, are killed, or cannot be reached": [
    "test/{resilience,alerts}/*.test.ts",
    "services/*/resilience/*.test.ts",
    "services/*/process.test.ts",
    "gateway/{process,metrics/*}.test.ts",
    "services/deployer/engine/*.test.ts",
    "services/**/{kill,kills,faults}.test.ts",
    "services/kit/events/*.test.ts",
    "services/deployer/{suspension,usage}/*.test.ts",
  ],
  "a payment provider whose time passes, that hangs, or answers in another order": [
    "services/billing/{cancellation,disputes,due,metering,seats,webhook}/*.test.ts",
    "services/billing/{accounts,coupons,plan-change,set-up,stripe,suspension}/*.test.ts",
    "test/stories/{billing/*,payments}.test.ts",
  ],
  "pages in a browser, in each size and color": [
    "test/stories/{console,pages}/*.test.ts",
    "test/stories/{reference-page,docs-site}.test.ts",
  ],
  "programs of users: the command line, agents, and what the README says": [
    "test/stories/{cli,mcp,addons}/*.test.ts",
    "test/stories/{readme,metrics,main-path,roll-over,rollback,one-machine-proxy}.test.ts",
    "deploy/server/*.test.ts",
  ],
  "apps that are built and run, with jobs and databases": [
    "services/deployer/builder/local/*.test.ts",
    "services/deployer/{backups,builds,domains,jobs,releases,runs}/*.test.ts",
    "services/deployer/runtime/local/*.test.ts",
    "services/deployer/{accounts,deployments/**,api,store/*}/*.test.ts",
    "services/deployer/addons/{*,local/*}.test.ts",
  ],
  "mail, webhooks and notices, as time passes": [
    "services/notifications/{capacity,digests,notices,webhooks}/*.test.ts",
    "test/stories/notifications/*.test.ts",
  ],
  "OAuth clients and the people who connect them": [
    "services/identity/{oauth/hydra,passwords}/*.test.ts",
    "test/stories/oauth/**/*.test.ts",
  ],
  "ten thousand services": ["services/deployer/runtime/kubernetes/many/*.test.ts"],
  "renderings of the chart with each preset": ["test/contracts/chart/*.test.ts"],
  "the whole platform, or its servers, started again and again": [
    "deploy/{backup,local/backup,local/postgres}/*.test.ts",
    "deploy/{database,images}/*.test.ts",
    "test/stories/{start,plans,streams/*,git,walls,client,deletion,people}.test.ts",
    "test/api/{fresh-reads,people}.test.ts",
  ],
};

/**
 * Returns which of the files that are long by nature a sample leaves out, which the seed decides, and how many it has: one
 * in so many of each kind, and at least one.
 */
export function sampleFiles(seed: number, oneIn: number): { leftOut: string[]; size: string } {
  const { next } = createRandom(seed);
  const seen = new Set<string>();
  const kinds = Object.values(LONG).map((patterns) =>
    globSync(patterns, { cwd: join(import.meta.dirname, "../..") })
      .filter((file) => !file.endsWith(".cluster.test.ts") && !seen.has(file))
      .toSorted()
      .map((file) => ({ file, rank: next() }))
      .toSorted((a, b) => a.rank - b.rank)
      .map(({ file }) => {
        seen.add(file);
        return file;
      }),
  );
  const leftOut = kinds.flatMap((files) => files.slice(Math.ceil(files.length / oneIn)));
  const all = kinds.flat().length;
  return { leftOut, size: `files of what is long: ${all - leftOut.length} of ${all}` };
}
