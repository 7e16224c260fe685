import { destination, type Logger, pino } from "pino";

export type { Logger };

// Bearer tokens, and what opens a one-time link.
const TOKEN = /\bberth_(pat|ses|inv|rst)_[\w-]{36,43}/g;
const URL_PASSWORD = /(:\/\/[^\s:/@"]*):[^\s@/"]+@/g;

/** Removes bearer tokens and passwords in URLs from a text that leaves the process. */
export function redact(line: string): string {
  return line.replace(TOKEN, "berth_$1_[redacted]").replace(URL_PASSWORD, "$1:[redacted]@");
}

const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * Writes lines to stdout at once. What it does not take, as a file on a full disk, waits up to a size and is
 * dropped beyond that: a process does not die of its log.
 */
function toStdout(): (line: string) => void {
  const stdout = destination({ dest: 1, sync: true, maxLength: MAX_WAITING_BYTES });
  stdout.on("error", () => {});
  return (line) => void stdout.write(line);
}

/** JSON logs on stdout, one object a line; known secret members and token-shaped texts are removed. */
export function createLog(
  service: string,
  level: string,
  write: (line: string) => void = toStdout(),
): Logger {
  return pino(
    {
      level,
      base: { service },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: [
          "authorization",
          "token",
          "password",
          "value",
          "*.authorization",
          "*.token",
          "*.password",
          "*.value",
        ],
        censor: "[redacted]",
      },
    },
    { write: (line: string) => write(redact(line)) },
  );
}
