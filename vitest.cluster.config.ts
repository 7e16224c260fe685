import { randomInt } from "node:crypto";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import {
  withAcme,
  withBuildpacks,
  withCloudNativePg,
  withEarlierCloudNativePg,
} from "./deploy/cluster/settings.ts";

process.env.TEST_SEED ||= String(randomInt(2 ** 31));
const SEED = Number(process.env.TEST_SEED);

/**
 * What the cluster itself does comes first, and the chart's upgrades, which roll every process, come last. Which file is next
 * differs each time: a slow machine may not reach them all.
 */
class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) =>
      moduleId.includes("/node.cluster") ? 0 : moduleId.includes("/chart.cluster") ? 2 : 1;
    const sorted = files.toSorted((a, b) => a.moduleId.localeCompare(b.moduleId));
    const begin = SEED % sorted.length;
    return [...sorted.slice(begin), ...sorted.slice(0, begin)].sort((a, b) => rank(a) - rank(b));
  }
}

/** What only a cluster can show, and the user stories that hold wherever Berth runs. */
export default defineConfig({
  test: {
    globalSetup: ["test/support/servers/global-setup.ts", "test/cluster/setup/global-setup.ts"],
    setupFiles: ["test/support/seed.ts", "test/contracts/documented.ts", "test/cluster/setup/setup-file.ts"],
    include: [
      "**/*.cluster.test.ts",
      "test/contracts/chart/*.test.ts",
      "test/api/scale.test.ts",
      "test/stories/{main-path,rollback,roll-over,site-variables,addons/addon-app,oauth/clients/oauth4webapi,notifications/deployments}.test.ts",
      "test/stories/{cli/deploying,mcp/clients}.test.ts",
    ],
    exclude: [
      "**/node_modules/**",
      ...(withBuildpacks ? [] : ["**/buildpacks.cluster.test.ts"]),
      ...(withAcme ? [] : ["**/acme.cluster.test.ts"]),
      ...(withCloudNativePg ? [] : ["**/cnpg.cluster.test.ts"]),
      ...(withEarlierCloudNativePg ? [] : ["**/operator-upgrade.cluster.test.ts"]),
    ],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    runner: "test/cluster/setup/until.ts",
    // All share one platform, and it the machine.
    fileParallelism: false,
    sequence: { sequencer: InOrder },
  },
});
