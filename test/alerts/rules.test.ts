import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { expectAlert, promtool, rules, runPromtool } from "./evaluate.ts";

const pages = join(import.meta.dirname, "../../docs/runbooks");

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

describe.skipIf(!promtool)("the rules", () => {
  test("are such as Prometheus takes", async () => {
    expect(await runPromtool("check")).toContain(`${rules.length} rules found`);
  });

  test("alert on a process of which there is no pod", async () => {
    const started = (services: string[]) =>
      services.map((service) => `process_start_time_seconds{service="${service}"} 1\n`).join("");
    const all = ["gateway", "identity", "variables", "deployer", "notifications", "billing"];
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
