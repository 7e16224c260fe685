const SECOND_MS = 1_000;

/** Returns a time as an input of the type datetime-local has it, in the time zone of the browser, to the second before. */
export function toLocal(ms: number): string {
  const shifted = ms - new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(Math.floor(shifted / SECOND_MS) * SECOND_MS).toISOString().slice(0, 19);
}

/** Returns the first whole second from a time on, likewise. */
export const toLocalFrom = (time: string) => toLocal(Math.ceil(Date.parse(time) / SECOND_MS) * SECOND_MS);

/** Returns the time that such an input names; undefined while it names none. */
export function fromLocal(local: string): string | undefined {
  const ms = Date.parse(local);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
