/** A place that a stream holds; `free` may be called more than once. */
export type Slot = { free: () => void };

export type StreamSlots = ReturnType<typeof createStreamSlots>;

/** Counts the streams that each caller has open; 0 is no limit. */
export function createStreamSlots(limit: number) {
  const held = new Map<string, number>();
  return {
    limit,
    /** Undefined when the caller has all it may have. */
    async take(who: string): Promise<Slot | undefined> {
      const count = held.get(who) ?? 0;
      if (limit > 0 && count >= limit) return undefined;
      held.set(who, count + 1);
      let freed = false;
      return {
        free() {
          if (freed) return;
          freed = true;
          const left = held.get(who)! - 1;
          if (left > 0) held.set(who, left);
          else held.delete(who);
        },
      };
    },
  };
}
