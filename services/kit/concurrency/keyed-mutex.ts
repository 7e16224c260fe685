/** Runs work with the same key one after the other, and work with different keys concurrently. */
export function createKeyedMutex() {
  const last = new Map<string, Promise<unknown>>();
  return {
    /** Runs `work` after all earlier work with its key, whether that succeeded or failed, and returns its result. */
    async run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const turn = (last.get(key) ?? Promise.resolve()).then(work, work);
      last.set(key, turn);
      try {
        return await turn;
      } finally {
        if (last.get(key) === turn) last.delete(key);
      }
    },
    /** Resolves when all work so far has ended. */
    async settled(): Promise<void> {
      await Promise.allSettled(last.values());
    },
  };
}
