const MAX_MS = 30_000;

/** Counts failures in a row by key, and returns a growing pause after each. */
export function createBackoff() {
  const failures = new Map<string, number>();
  return {
    /** Returns how long to pause after one more failure, in ms. */
    failed(key: string): number {
      const failed = (failures.get(key) ?? 0) + 1;
      failures.set(key, failed);
      return Math.min(MAX_MS, 250 * 2 ** Math.min(failed, 10));
    },
    succeeded: (key: string) => failures.delete(key),
  };
}
