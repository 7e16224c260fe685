import type { Pool } from "../../kit/postgres/db.ts";
import { createReadGauge } from "../../kit/telemetry.ts";
import { readWithoutCertificate } from "./sql.ts";

const watchCount = createReadGauge({
  name: "berth_domains_without_certificate",
  help: "Domains that are served and wait for their certificate; the same from all replicas",
});

const watchOldest = createReadGauge({
  name: "berth_domains_without_certificate_oldest_seconds",
  help: "How long the domain waits that has waited longest for its certificate; the same from all replicas",
});

/** Reports on domains whose certificates are not there (docs/domains.md#states). */
export function watchCertificates(pool: Pool): void {
  watchCount(async () => (await readWithoutCertificate(pool)).domains);
  watchOldest(async () => (await readWithoutCertificate(pool)).oldestSeconds);
}
