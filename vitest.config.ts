import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { sampleFiles } from "./test/support/sample-files.ts";

process.env.TEST_SEED ||= String(randomInt(2 ** 31));
/** `npm test` tests samples of what is long by nature, and `npm test -- FILE` the file, whatever it is. */
const isWhole = process.argv.slice(2).every((argument) => argument === "run" || argument.startsWith("-"));
const isSample = process.env.TEST_SAMPLE === "1" && isWhole;
/** Of what is long, one file in so many: `npm test` takes minutes, and `.ci/run` has time for more. */
const oneIn = Number(process.env.TEST_ONE_IN || 8);
const sample = isSample ? sampleFiles(Number(process.env.TEST_SEED), oneIn) : undefined;
process.env.TEST_SAMPLED_FILES = sample?.size ?? "";

export default defineConfig({
  test: {
    globalSetup: ["test/support/servers/global-setup.ts"],
    setupFiles: ["test/support/seed.ts", "test/support/fresh-process.ts", "test/contracts/documented.ts"],
    include: ["services", "gateway", "deploy", "clients", "test"].map((folder) => `${folder}/**/*.test.ts`),
    exclude: ["**/node_modules/**", "**/*.cluster.test.ts", ...(sample?.leftOut ?? [])],
    // Far longer than anything takes: a busy machine makes no test fail.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    // Modules are evaluated once per process instead of once per file: a quarter of the time of all tests.
    isolate: false,
    // Most of the time tests wait for processes, also where there are few processors.
    maxWorkers: Math.max(4, availableParallelism()),
  },
});
