import { globSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "../../services/kit/testing/random.ts";

/** Test files that are long by nature. */
const LONG = [
  // Processes and servers fail, are killed, or cannot be reached.
  "test/resilience/*.test.ts",
  "services/*/resilience/*.test.ts",
  "services/**/{kills,faults}.test.ts",
  "test/alerts/*.test.ts",
  // Pages in a browser, in each size and color.
  "test/stories/pages/*.test.ts",
  "test/stories/reference-page.test.ts",
  // Renderings of the chart with each preset.
  "test/contracts/chart/*.test.ts",
  // Apps of each language, addons, and ten thousand services.
  "services/deployer/builder/local/*.test.ts",
  "services/deployer/addons/{lifecycle,rotation}.test.ts",
  "services/deployer/runtime/kubernetes/many/*.test.ts",
  // The whole platform, or its servers, started again and again.
  "deploy/{backup,local/backup,local/postgres}/*.test.ts",
  "test/stories/{start,plans,payments}.test.ts",
];
const ONE_IN = 4;

/** Returns which of the files that are long by nature a sample leaves out, which the seed decides, and how many it has. */
export function sampleFiles(seed: number): { leftOut: string[]; size: string } {
  const files = globSync(LONG, { cwd: join(import.meta.dirname, "../..") }).toSorted();
  const { next } = createRandom(seed);
  const shuffled = files.map((file) => ({ file, rank: next() })).toSorted((a, b) => a.rank - b.rank);
  const some = Math.ceil(files.length / ONE_IN);
  return {
    leftOut: shuffled.slice(some).map(({ file }) => file),
    size: `files of what is long: ${some} of ${files.length}`,
  };
}
