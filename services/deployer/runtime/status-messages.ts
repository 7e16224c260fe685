import { maskSecrets } from "../shared/mask-secrets.ts";

/** How many of the last lines of output a status quotes. */
export const QUOTED_LINES = 10;
const MAX_QUOTED_LINE = 500;

/** Returns what keeps an app that runs from being available. */
export function notAnswering(healthCheckPath: string | undefined): string {
  return healthCheckPath === undefined
    ? "The app is running, but nothing accepted a connection on PORT."
    : `The app is running, but GET ${healthCheckPath} on PORT was not answered with 200–399.`;
}

/** Returns that a release is late, and why if that is known. */
export function notAvailableInTime(deadlineMs: number, why: string | undefined): string {
  const late = `The new release was not available after ${Math.round(deadlineMs / 1000)} s.`;
  return why ? `${late} ${why}` : late;
}

/** Returns the last lines of output, oldest first, with these secrets masked. */
export function quoteOutput(lines: string[], secrets: string[]): string {
  if (lines.length === 0) return "It wrote nothing.";
  const text = lines.map((line) => line.slice(0, MAX_QUOTED_LINE)).join("\n");
  return `Its last lines:\n${maskSecrets(secrets)(text)}`;
}
