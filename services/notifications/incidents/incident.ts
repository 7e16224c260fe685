/**
 * The known health of one service. Times in ms. An incident lasts from the first report that the service is unhealthy
 * to the recovery that no failure follows within ten minutes.
 */
export type Incident = {
  /** When it began, which identifies it in dedupe keys. Undefined when only a recovery is known. */
  openedAt?: number | undefined;
  /** The last report that the service is unhealthy. */
  unhealthyAt?: number | undefined;
  /** Undefined while the service is unhealthy. */
  closedAt?: number | undefined;
};

/** A service that becomes unhealthy again within this time after its recovery has the same incident. */
const FLAPPING_MS = 600_000;

/** A report of a service's health; `quiet` for one that users learn of by another notification. */
export type HealthReport = { healthy: boolean; at: number; quiet?: boolean };

/**
 * Returns the incident after a report, and whether to notify users: of the first failure and the recovery of each
 * incident. Reports may arrive late and in any order: one older than what is known changes nothing. Pure.
 */
export function afterReport(known: Incident, report: HealthReport): { incident: Incident; notify: boolean } {
  return report.healthy ? afterRecovery(known, report) : afterFailure(known, report.at);
}

function afterFailure(known: Incident, at: number): { incident: Incident; notify: boolean } {
  const { openedAt, unhealthyAt = 0, closedAt } = known;
  if (closedAt !== undefined && at <= closedAt) return { incident: known, notify: false };
  const isSame = openedAt !== undefined && (closedAt === undefined || at - closedAt < FLAPPING_MS);
  if (isSame) return { incident: { openedAt, unhealthyAt: Math.max(unhealthyAt, at) }, notify: false };
  return { incident: { openedAt: at, unhealthyAt: at }, notify: true };
}

function afterRecovery(
  known: Incident,
  { at, quiet = false }: HealthReport,
): { incident: Incident; notify: boolean } {
  const { openedAt, unhealthyAt = 0, closedAt } = known;
  if (at < unhealthyAt || (closedAt !== undefined && at <= closedAt))
    return { incident: known, notify: false };
  const wasOpen = openedAt !== undefined && closedAt === undefined;
  return { incident: { ...known, closedAt: at }, notify: wasOpen && !quiet };
}
