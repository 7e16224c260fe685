import { cpus } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { startLoop } from "../../../services/kit/tasks/loop.ts";

/** How much of the machine is to be free, so that requests fail for what is done to the platform and not for load. */
const FREE = { least: 0.15, most: 0.35 };
const ADAPT_MS = 1_000;
const PAUSE_MS = { shortest: 20, longest: 4_000 };

export type Pace = ReturnType<typeof createPace>;

/** A pace that does not heed the machine, for few clients. */
export const steadyPace = (pauseMs: number): Pace => ({
  pauseMs: () => pauseMs,
  pause: () => delay(pauseMs),
  stop: async () => {},
});

/** How long clients pause between what they do: longer while the machine is busy. */
export function createPace() {
  let pauseMs = 200;
  let before = times();
  const adapt = async () => {
    const now = times();
    const free = (now.idle - before.idle) / Math.max(1, now.all - before.all);
    before = now;
    if (free < FREE.least) pauseMs *= 1.3;
    else if (free > FREE.most) pauseMs *= 0.8;
    pauseMs = Math.min(PAUSE_MS.longest, Math.max(PAUSE_MS.shortest, pauseMs));
    return ADAPT_MS;
  };
  const adapting = startLoop(adapt, ADAPT_MS);
  return {
    pauseMs: () => pauseMs,
    /** Pauses, by between half and one and a half of the present pause. */
    pause: (random: () => number) => delay(pauseMs * (0.5 + random())),
    stop: () => adapting.stop(),
  };
}

function times(): { idle: number; all: number } {
  const sums = { idle: 0, all: 0 };
  for (const { times } of cpus()) {
    sums.idle += times.idle;
    sums.all += Object.values(times).reduce((sum, one) => sum + one, 0);
  }
  return sums;
}
