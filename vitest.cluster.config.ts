import { defineConfig } from "vitest/config";

/** What only a cluster can show, and the user stories that hold wherever Berth runs. */
export default defineConfig({
  test: {
    globalSetup: ["test/servers.ts", "test/cluster/setup.ts"],
    setupFiles: ["test/cluster/names.ts"],
    include: ["**/*.cluster.test.ts", "test/{main-path,rollback,roll-over,git,scale,addon-app}.test.ts"],
    exclude: ["**/node_modules/**"],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: "forks",
    // Builds and roll-outs share the machine with what they are tested by.
    maxWorkers: 2,
  },
});
