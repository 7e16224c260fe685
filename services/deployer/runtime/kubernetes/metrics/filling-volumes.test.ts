import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { findPromtool } from "../../../../../test/support/servers/promtool.ts";
import { fillingQuery } from "./filling-volumes.ts";

const promtool = await findPromtool();

test.skipIf(!promtool)(
  "Prometheus answers with both values of nearly full volumes of addons, of all environments of one prefix",
  async () => {
    const seriesOf = (namespace: string, claim: string, used: number) => {
      const labels = `{namespace="${namespace}",persistentvolumeclaim="${claim}",node="one"}`;
      return {
        used: { series: `kubelet_volume_stats_used_bytes${labels}`, values: `${used}` },
        capacity: { series: `kubelet_volume_stats_capacity_bytes${labels}`, values: "100" },
      };
    };
    const filling = [seriesOf("berth-env-1a", "data-svc-2b-0", 85), seriesOf("berth-env-3c", "svc-4d-2", 99)];
    const others = [
      seriesOf("berth-env-1a", "data-svc-5e-0", 84),
      seriesOf("berth-env-1a", "svc-4d-moment-1", 99),
      seriesOf("other-env-1a", "data-svc-2b-0", 99),
    ];
    const expected = filling
      .flatMap(({ used, capacity }) => [used, capacity])
      .map(({ series, values }) => ({ labels: series, value: Number(values) }));
    const folder = await mkdtemp(join(tmpdir(), "berth-promtool-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, "test.json");
    const input = [...filling, ...others].flatMap(({ used, capacity }) => [used, capacity]);
    await writeFile(
      file,
      JSON.stringify({
        tests: [
          {
            input_series: input,
            promql_expr_test: [{ expr: fillingQuery("berth", 0.85), eval_time: "0m", exp_samples: expected }],
          },
        ],
      }),
    );
    const { stdout } = await promisify(execFile)(promtool!, ["test", "rules", file]);
    expect(stdout).toContain("SUCCESS");
  },
);
