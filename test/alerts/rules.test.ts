import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { register } from "prom-client";
import { describe, expect, test } from "vitest";
import { programs } from "../../deploy/local/programs/programs.ts";
import { startTelemetry } from "../../services/kit/telemetry.ts";
import { expectAlert, promtool, RULES, rules, runPromtool } from "./evaluate.ts";

const root = join(import.meta.dirname, "../..");
const pages = join(root, "docs/runbooks");

test("each alert has a page that says what to do, and each page an alert", () => {
  const named = rules.map(({ alert }) => `${alert}.md`);
  expect(readdirSync(pages).sort()).toEqual(["README.md", ...named].sort());
  for (const page of named) {
    const text = readFileSync(join(pages, page), "utf8");
    const headings = [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    expect([page, headings]).toEqual([
      page,
      ["What it means", "What users notice", "How to look", "What to do"],
    ]);
    expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(30);
  }
});

describe("metrics", async () => {
  await startTelemetry("test", undefined);
  const declaring = globSync("{gateway,services}/**/*.ts", { cwd: root })
    .filter((file) => !/test(ing)?\b/.test(file))
    .filter((file) =>
      /new (Counter|Gauge|Histogram)\b|createReadGauge\(/.test(readFileSync(join(root, file), "utf8")),
    );
  for (const file of declaring) await import(join(root, file));

  test("each metric that alerts and the dashboard read exists", () => {
    const dashboard = JSON.parse(readFileSync(join(root, "helm/berth/dashboards/berth.json"), "utf8"));
    const read = JSON.stringify([dashboard.panels, RULES]).match(/\b(berth|nodejs|process)_[a-z0-9_]+/g)!;
    const unknown = [...new Set(read)].filter(
      (name) => !register.getSingleMetric(name.replace(/_(count|sum|bucket)$/, "")),
    );
    expect(unknown).toEqual([]);
    expect(new Set(read).size).toBeGreaterThan(6);
  });

  test("the table of operators has a row for each metric, and none that there is not", () => {
    const page = readFileSync(join(root, "docs/operations.md"), "utf8");
    const rows = page.split("\n").filter((line) => line.startsWith("| `berth_"));
    const documented = rows.flatMap((row) => row.split("|")[1]!.match(/berth_\w+/g)!);
    const declared = register.getMetricsAsArray().map(({ name }) => name);
    expect(documented.sort()).toEqual(declared.filter((name) => name.startsWith("berth_")).sort());
  });
});

describe.skipIf(!promtool)("the rules", () => {
  test("are such as Prometheus takes", async () => {
    expect(await runPromtool("check")).toContain(`${rules.length} rules found`);
  });

  test("alert on a process of which there is no pod", async () => {
    const started = (services: string[]) =>
      services.map((service) => `process_start_time_seconds{service="${service}"} 1\n`).join("");
    const all = programs.map(({ name }) => name);
    const running = started(all);
    const without = (missing: string) => started(all.filter((service) => service !== missing));
    await Promise.all(
      all.map((missing) =>
        expectAlert("BerthProcessMissing", { before: running, during: without(missing), after: running }),
      ),
    );
  });

  test("alert on a volume that is nearly full, by what the kubelet says of it", async () => {
    const volume = (available: number) =>
      ["available", "capacity"]
        .map((what) => `kubelet_volume_stats_${what}_bytes{persistentvolumeclaim="data-berth-registry-0"} `)
        .map((line, at) => `${line}${[available, 100e9][at]}\n`)
        .join("");
    await expectAlert("BerthVolumeFilling", {
      before: volume(40e9),
      during: volume(9e9),
      after: volume(60e9),
    });
  });

  test.each([
    ["disk", 0.8, 0.86],
    ["memory", 0.89, 0.91],
  ])("alert on a node whose %s runs short", async (resource, well, short) => {
    const node = (ratio: number) => `berth_node_used_ratio{node="one",resource="${resource}"} ${ratio}\n`;
    await expectAlert("BerthNodeShort", { before: node(well), during: node(short), after: node(well) });
  });

  test("alert on an addon's volume that is nearly full, and on that of nobody else", async () => {
    const volume = (namespace: string, available: number) =>
      ["available", "capacity"]
        .map((what) => `kubelet_volume_stats_${what}_bytes{namespace="${namespace}"} `)
        .map((line, at) => `${line}${[available, 100e9][at]}\n`)
        .join("");
    const others = volume("shop", 1e9) + volume("berth-builds", 1e9);
    await expectAlert("BerthAddonVolumeFilling", {
      before: others + volume("berth-env-a", 40e9),
      during: others + volume("berth-env-a", 9e9),
      after: others + volume("berth-env-a", 60e9),
    });
  });

  describe("alert on a task that", () => {
    const MINUTE = 60;
    const HOUR = 60 * MINUTE;
    const LATER = 100 * HOUR;
    const series = (what: string, value: number, task: string) =>
      `berth_task_${what}_seconds{service="billing",task="${task}",pod="one"} ${value}\n`;
    const metrics = (task: string, period: number, times: { started: number; succeeded?: number }) =>
      series("period", period, task) +
      series("started_timestamp", times.started, task) +
      (times.succeeded === undefined ? "" : series("succeeded_timestamp", times.succeeded, task));

    // The condition begins after 30 minutes and lasts for two hours.
    test.each([
      ["ended well once and not since, each second", 1, { started: 0, succeeded: 29 * MINUTE }],
      ["never ended well since its process started", 1, { started: 29 * MINUTE }],
      ["has not ended well for three of its longer periods", 30 * MINUTE, { started: -60, succeeded: 0 }],
    ])("%s", async (_which, period, during) => {
      const before = metrics("t", period, { started: -60, succeeded: 29 * MINUTE });
      const after = metrics("t", period, { started: -60, succeeded: LATER });
      await expectAlert("BerthTaskFailing", { before, during: metrics("t", period, during), after });
    });

    test("fails in one process, though others do it well", async () => {
      const other = (times: { started: number; succeeded: number }) =>
        metrics("t", 1, times).replaceAll('"one"', '"two"');
      const well = other({ started: 0, succeeded: LATER });
      await expectAlert("BerthTaskFailing", {
        before: well,
        during: well + metrics("t", 1, { started: 29 * MINUTE }),
        after: well,
      });
    });

    test("fails: not on those within their three periods, or that a process does not do", async () => {
      const long = metrics("daily", 24 * HOUR, { started: 0 });
      const failing = metrics("t", 1, { started: 29 * MINUTE });
      // Without it the alert would fire before and after, too.
      await expectAlert("BerthTaskFailing", { before: long, during: long + failing, after: long });
    });
  });

  test("alert on addons that do not serve since they were moved", async () => {
    const stuck = (count: number) => `berth_addons_stuck ${count}\n`;
    await expectAlert("BerthAddonsStuck", { before: stuck(0), during: stuck(1), after: stuck(0) });
  });

  test("alert on addons whose archive takes nothing new", async () => {
    const failing = (count: number) => `berth_addon_archives_failing ${count}\n`;
    await expectAlert("BerthAddonArchiveFailing", {
      before: failing(0),
      during: failing(1),
      after: failing(0),
    });
  });

  test.each([
    ["could not be restored to the side", "berth_addon_backup_proofs_failed", 1],
    ["was not restored to the side for long", "berth_addon_backup_proof_age_seconds", 4 * 86_400],
  ])("alert on backups of addons of which one %s", async (_which, name, value) => {
    const metric = (value: number) => `${name} ${value}\n`;
    await expectAlert("BerthAddonBackupUnproved", {
      before: metric(0),
      during: metric(value),
      after: metric(0),
    });
  });

  describe("alert on a backup, by what kube-state-metrics says of its CronJob,", () => {
    const HOUR = 3_600;
    const cronJob = (what: string, at: number) => `kube_cronjob_${what}{cronjob="berth-backup"} ${at}\n`;
    const succeeded = (at: number) => cronJob("status_last_successful_time", at);
    const created = cronJob("created", -1_000 * HOUR);
    const failed = (at: number) =>
      [`kube_job_created{job_name="berth-backup-1"} ${at}\n`]
        .concat(`kube_job_failed{job_name="berth-backup-1",condition="true"} 1\n`)
        .join("");
    // The conditions begin after 30 minutes; the next backup succeeds after they ended.
    const after = created + succeeded(3 * HOUR);

    test.each([
      ["that is too old", created + succeeded(-1), created + succeeded(-36 * HOUR)],
      ["that was never made", cronJob("created", -1), created],
      [
        "that failed after one that succeeded",
        created + succeeded(60),
        created + succeeded(60) + failed(120),
      ],
      [
        "of which none succeeded, and one failed",
        cronJob("created", 60),
        cronJob("created", 60) + failed(120),
      ],
    ])("%s", async (_which, before, during) => {
      await expectAlert("BerthBackupMissing", { before, during, after });
    });

    test("that failed before one that succeeded: no longer", async () => {
      const later = created + succeeded(180) + failed(120);
      const during = created + succeeded(-37 * HOUR);
      await expectAlert("BerthBackupMissing", { before: later, during, after });
    });
  });

  test("alert on domains that wait for their certificate, or whose certificate is not renewed", async () => {
    const HOUR = 3_600;
    const waits = (hours: number) => `berth_domains_without_certificate_oldest_seconds ${hours * HOUR}\n`;
    await expectAlert("BerthDomainCertificates", { before: waits(1), during: waits(7), after: waits(0) });
    const expires = (days: number) =>
      `certmanager_certificate_expiration_timestamp_seconds{name="domain.x.tls",exported_namespace="berth-env-1"} ${days * 86_400}\n`;
    await expectAlert("BerthDomainCertificates", {
      before: expires(90),
      during: expires(13),
      after: expires(90),
    });
  });

  test.each([
    'certmanager_certificate_expiration_timestamp_seconds{name="berth-tls",exported_namespace="platform"}',
    'probe_ssl_earliest_cert_expiry{instance="https://berth.example.com/healthz"}',
  ])("alert on a certificate that expires, by %s", async (series) => {
    const expires = (days: number) => `${series} ${days * 86_400}\n`;
    await expectAlert("BerthCertificateExpiring", {
      before: expires(90),
      during: expires(13),
      after: expires(90),
    });
  });
});
