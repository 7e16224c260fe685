/** What became of a try to send a mail. `reason` is a status of SMTP, an error code, or why it was not sent. */
export type MailOutcome = {
  state: "sent" | "retrying" | "failed" | "dropped";
  reason?: string | undefined;
  /** The server refused the address for good. */
  refused?: boolean;
};

export type Attempted = MailOutcome & { retrySeconds?: number };

// docs/notifications.md#mail
const RETRY_SECONDS = [30, 2 * 60, 10 * 60, 3600, 6 * 3600, 24 * 3600];
const JITTER = 0.2;

/** How often a mail is tried. One that is taken more often was interrupted each time. */
export const MAX_TRIES = RETRY_SECONDS.length + 1;

/** Returns what becomes of a mail after a try that failed for now: another try, or none after the last. */
export function afterFailure(tries: number, reason: string | undefined, random = Math.random): Attempted {
  const seconds = RETRY_SECONDS[tries - 1];
  if (seconds === undefined) return { state: "failed", reason };
  return { state: "retrying", reason, retrySeconds: seconds * (1 - JITTER + 2 * JITTER * random()) };
}

/** What an error of SMTP says: its code, and the server's status and the command that it answers, if it answered. */
export type SmtpError = { code?: string; responseCode?: number; command?: string };

/**
 * Returns what becomes of a mail that the server did not take. Only the answer to a recipient or to a text is about this
 * mail: what is refused for good before concerns the server's settings, and may be mended.
 */
export function afterSmtpError(
  tries: number,
  { code, responseCode = 0, command }: SmtpError,
  random = Math.random,
): Attempted {
  const reason = responseCode ? String(responseCode) : code;
  const aboutMail = command === "RCPT TO" || command === "DATA";
  if (responseCode < 500 || !aboutMail) return afterFailure(tries, reason, random);
  return { state: "failed", reason, refused: command === "RCPT TO" };
}
