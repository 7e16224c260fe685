import { destination, type Logger, pino } from "pino";

export type { Logger };

// Bearer tokens, and tokens of one-time links.
const TOKEN = /\bberth_(pat|ses|inv|rst)_[\w-]{36,43}/g;
const URL_PASSWORD = /(:\/\/[^\s:/@"]*):[^\s@/"]+@/g;

/** Returns a text without the bearer tokens and the passwords of URLs in it. */
export function redact(line: string): string {
  return line.replace(TOKEN, "berth_$1_[redacted]").replace(URL_PASSWORD, "$1:[redacted]@");
}

const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * Returns a function that writes lines to stdout synchronously. Lines that stdout does not accept, such as a file on a
 * full disk, are buffered up to a size and then dropped, so that a log never ends a process.
 */
function toStdout(): (line: string) => void {
  const stdout = destination({ dest: 1, sync: true, maxLength: MAX_WAITING_BYTES });
  stdout.on("error", () => {});
  return (line) => void stdout.write(line);
}

/** Returns a logger that writes one JSON object per line to stdout, without secret members and tokens. */
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
