import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/support/servers/global-setup.ts"],
    setupFiles: ["test/support/seed.ts", "test/support/fresh-metrics.ts", "test/contracts/documented.ts"],
    include: ["services/**/*.test.ts", "gateway/**/*.test.ts", "deploy/**/*.test.ts", "test/**/*.test.ts"],
    exclude: ["**/node_modules/**", "**/*.cluster.test.ts"],
    // Far longer than anything takes: a busy machine makes no test fail.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: "forks",
    // Modules are evaluated once per process instead of once per file: a quarter of the time of all tests.
    isolate: false,
    // Most of the time tests wait for processes, also where there are few processors.
    maxWorkers: Math.max(4, availableParallelism()),
  },
});
