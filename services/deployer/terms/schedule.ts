import { Cron } from "croner";

/** A schedule that is known to be valid. */
export type Schedule = { schedule: string; timeZone?: string };

const ALIASES = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/** A time that was missed for longer is not caught up. */
const CATCH_UP_MS = 3_600_000;

/** Returns why a schedule is none, as a sentence; undefined for one that is. */
export function findScheduleProblem(schedule: string): string | undefined {
  const fields = schedule.trim().split(/\s+/);
  const isAlias = fields.length === 1 && ALIASES.includes(fields[0]!.toLowerCase());
  if (!isAlias && fields.length !== 5)
    return "A schedule has five fields (minute, hour, day of the month, month, day of the week), or is one of @hourly, @daily, @weekly, @monthly and @yearly.";
  try {
    return nextTime({ schedule }, Date.now()) === undefined
      ? "No day is like this: it would never run."
      : undefined;
  } catch (error) {
    return `It cannot be read: ${(error as Error).message.replace(/^CronPattern: /, "").replace(/\.$/, "")}.`;
  }
}

/** Whether there is an IANA time zone of this name. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the first time of a schedule after `after`, in ms; undefined when there is none. A time that a clock change leaves
 * out is right after the gap; of one that comes twice, the first counts (docs/jobs.md#clock-changes).
 */
export function nextTime({ schedule, timeZone = "UTC" }: Schedule, after: number): number | undefined {
  return new Cron(schedule.trim(), { timezone: timeZone, mode: "5-part" })
    .nextRun(new Date(after))
    ?.getTime();
}

/**
 * Returns which time of a schedule is to run now, and the next one, in ms; pure. `dueAt` is the first that did not run: of
 * several, the latest within an hour counts, and older ones are skipped.
 */
export function decideDue(schedule: Schedule, dueAt: number, now: number): { run?: number; next?: number } {
  if (dueAt > now) return { next: dueAt };
  let run = dueAt > now - CATCH_UP_MS ? dueAt : undefined;
  let next = nextTime(schedule, Math.max(dueAt, now - CATCH_UP_MS));
  while (next !== undefined && next <= now) {
    run = next;
    next = nextTime(schedule, next);
  }
  return { ...(run !== undefined && { run }), ...(next !== undefined && { next }) };
}
