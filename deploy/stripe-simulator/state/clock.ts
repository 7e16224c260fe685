/** Scheduled work: `due` returns when the next is due, `run` does all that is due by `now`. */
export type Schedule = { due: () => number | undefined; run: (now: number) => void };

export type Clock = ReturnType<typeof createClock>;

/**
 * Returns a clock that runs at the speed of real time, ahead by an offset. Work that falls due while it is moved runs in
 * order of time, with the clock at that time. `realTime` is in milliseconds.
 */
export function createClock(offset: { seconds: number }, realTime: () => number = Date.now) {
  let pinned: number | undefined;
  const now = () => pinned ?? Math.floor(realTime() / 1000) + offset.seconds;

  /** Does work with the clock at a time. */
  function pinnedTo<T>(time: number, work: () => T): T {
    const before = pinned;
    pinned = time;
    try {
      return work();
    } finally {
      pinned = before;
    }
  }

  /** Runs all work that is due until a time; returns how often there was any. */
  function settle(schedule: Schedule, until = now()): number {
    let done = 0;
    for (let due = schedule.due(); due !== undefined && due <= until; due = schedule.due()) {
      const time = due;
      pinnedTo(time, () => schedule.run(time));
      done++;
    }
    return done;
  }

  return {
    now,
    settle,
    /** Does all of a request at one moment, also if it takes longer than a second. */
    atOnce: <T>(work: () => T): T => pinnedTo(now(), work),
    /** Returns how many seconds it is ahead of real time. */
    ahead: () => offset.seconds,
    /** Moves the clock forward to a time. Throws RangeError for an earlier one. */
    moveTo(schedule: Schedule, time: number): void {
      const ahead = time - now();
      if (ahead < 0) throw new RangeError("the clock only goes forward");
      settle(schedule, time);
      offset.seconds += ahead;
    },
  };
}
