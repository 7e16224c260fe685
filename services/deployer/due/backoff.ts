type Pauses = { firstMs: number; maxMs: number };

/** Counts failures in a row by key, and returns a pause after each, twice as long as the one before. */
export function createBackoff({ firstMs, maxMs }: Pauses) {
  const failures = new Map<string, { count: number; until: number }>();
  return {
    /** Returns how long to pause after one more failure, in ms. */
    failed(key: string): number {
      const count = (failures.get(key)?.count ?? 0) + 1;
      const pauseMs = Math.min(maxMs, firstMs * 2 ** Math.min(count - 1, 20));
      failures.set(key, { count, until: Date.now() + pauseMs });
      return pauseMs;
    },
    succeeded: (key: string) => failures.delete(key),
    /** Returns the keys whose pauses have not ended. Forgets those that nobody tried for long after theirs: they are gone. */
    pausing(): string[] {
      const now = Date.now();
      for (const [key, { until }] of failures) if (until + maxMs < now) failures.delete(key);
      return [...failures].filter(([, { until }]) => until > now).map(([key]) => key);
    },
  };
}
