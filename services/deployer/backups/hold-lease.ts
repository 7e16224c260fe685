/** How long no other process takes what one took, unless it is prolonged. */
export const LEASE_SECONDS = 30;

/**
 * Prolongs a lease until `stop`. `lost` aborts when `renew` returns 0, or could not be asked for as long as the lease lasts:
 * from then on another process may have it.
 */
export function holdLease(renew: (seconds: number) => Promise<number>) {
  const lost = new AbortController();
  let renewedAt = performance.now();
  const timer = setInterval(async () => {
    const askedAt = performance.now();
    try {
      if ((await renew(LEASE_SECONDS)) === 0) lost.abort();
      else renewedAt = askedAt;
    } catch {
      if (performance.now() - renewedAt > LEASE_SECONDS * 800) lost.abort();
    }
  }, LEASE_SECONDS * 100);
  return { lost: lost.signal, stop: () => clearInterval(timer) };
}
