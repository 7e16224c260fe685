import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/servers.ts"],
    include: [
      "services/**/*.test.ts",
      "gateway/**/*.test.ts",
      "deploy/**/*.test.ts",
      "proto/**/*.test.ts",
      "test/**/*.test.ts",
    ],
    exclude: ["**/node_modules/**", "**/*.cluster.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: "forks",
  },
});
