/** What is thrown by a wait for a lane that took too long. */
export class NoLane extends Error {
  override readonly name = "NoLane";
}

/** Lets `count` pieces of work run at a time; others wait in the order in which they came, for `waitMs` at most. */
export function createLanes(count: number, waitMs: number) {
  let free = count;
  const waiting = new Set<() => void>();

  function leave(): void {
    const [next] = waiting;
    if (!next) return void free++;
    waiting.delete(next);
    next();
  }

  return {
    /** Resolves once there is a lane, to what gives it back. Rejects with `NoLane`. */
    enter(): Promise<() => void> | (() => void) {
      if (free > 0) {
        free--;
        return leave;
      }
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => {
          waiting.delete(next);
          reject(new NoLane("the work before took too long"));
        }, waitMs);
        const next = () => {
          clearTimeout(late);
          resolve(leave);
        };
        waiting.add(next);
      });
    },
  };
}
