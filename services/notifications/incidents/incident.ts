/**
 * What is known of the health of one service. Times in ms. An incident lasts from its first sign to the recovery that
 * nothing follows for ten minutes.
 */
export type Incident = {
  /** When it began: its name in dedupe keys. Undefined when only a recovery is known. */
  openedAt?: number | undefined;
  /** The last sign that the service is unhealthy. */
  unhealthyAt?: number | undefined;
  /** Undefined while the service is unhealthy. */
  closedAt?: number | undefined;
};

/** A service that falls ill again within this time after its recovery has the same incident. */
const FLAPPING_MS = 600_000;

/** A sign of health; `quiet` for one of which users learn in another way. */
export type Sign = { healthy: boolean; at: number; quiet?: boolean };

/**
 * Returns what is known after a sign, and whether users are told of it: of the first that an incident has of each kind.
 * Signs may come late and in any order: one that is older than what is known changes nothing. Pure.
 */
export function afterSign(known: Incident, sign: Sign): { incident: Incident; tell: boolean } {
  return sign.healthy ? afterRecovery(known, sign) : afterFailure(known, sign.at);
}

function afterFailure(known: Incident, at: number): { incident: Incident; tell: boolean } {
  const { openedAt, unhealthyAt = 0, closedAt } = known;
  if (closedAt !== undefined && at <= closedAt) return { incident: known, tell: false };
  const isSame = openedAt !== undefined && (closedAt === undefined || at - closedAt < FLAPPING_MS);
  if (isSame) return { incident: { openedAt, unhealthyAt: Math.max(unhealthyAt, at) }, tell: false };
  return { incident: { openedAt: at, unhealthyAt: at }, tell: true };
}

function afterRecovery(known: Incident, { at, quiet = false }: Sign): { incident: Incident; tell: boolean } {
  const { openedAt, unhealthyAt = 0, closedAt } = known;
  if (at < unhealthyAt || (closedAt !== undefined && at <= closedAt)) return { incident: known, tell: false };
  const wasOpen = openedAt !== undefined && closedAt === undefined;
  return { incident: { ...known, closedAt: at }, tell: wasOpen && !quiet };
}
