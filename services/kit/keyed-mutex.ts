/** Runs work of one key one after the other, and work of different keys side by side. */
export function createKeyedMutex() {
  const last = new Map<string, Promise<unknown>>();
  return {
    /** Runs `work` when all earlier work of its key has ended, however it ended; returns its result. */
    async run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const turn = (last.get(key) ?? Promise.resolve()).then(work, work);
      last.set(key, turn);
      try {
        return await turn;
      } finally {
        if (last.get(key) === turn) last.delete(key);
      }
    },
    /** Resolves when all work given so far has ended. */
    async settled(): Promise<void> {
      await Promise.allSettled(last.values());
    },
  };
}
