/** Work that falls due at a time: `due` returns the next such time, `run` does all that is due at it. */
export type Schedule = { due: () => number | undefined; run: (now: number) => void };

export type Clock = ReturnType<typeof createClock>;

/**
 * Returns a clock that runs with the real time, ahead of it by an offset. Whatever falls due while it is moved is done
 * in the order of its times, with the clock at that time.
 */
export function createClock(offset: { seconds: number }) {
  let pinned: number | undefined;
  const now = () => pinned ?? Math.floor(Date.now() / 1000) + offset.seconds;

  /** Does all work that is due until a time. */
  function settle(schedule: Schedule, until = now()): number {
    let done = 0;
    for (let due = schedule.due(); due !== undefined && due <= until; due = schedule.due()) {
      pinned = due;
      try {
        schedule.run(pinned);
      } finally {
        pinned = undefined;
      }
      done++;
    }
    return done;
  }

  return {
    now,
    settle,
    /** Returns how many seconds it is ahead of the real time. */
    ahead: () => offset.seconds,
    /** Moves the clock to a time that is not past. */
    moveTo(schedule: Schedule, time: number): void {
      const ahead = time - now();
      if (ahead < 0) throw new RangeError("the clock only goes forward");
      settle(schedule, time);
      offset.seconds += ahead;
    },
  };
}
