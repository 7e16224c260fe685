import nodemailer from "nodemailer";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, many, type Pool } from "../postgres/db.ts";
import { ConfigError, checked, optionalUrl } from "../process/config.ts";

/** What a process that sends mail reads; both or neither. */
export const mailFields = {
  /** smtp:// (STARTTLS where the server offers it; `?requireTLS=true` insists) or smtps://, with credentials. */
  smtpUrl: optionalUrl("SMTP_URL", ["smtp", "smtps"]),
  mailFrom: checked(
    "MAIL_FROM",
    (value) => /^(?:[^<>@"\r\n]+ <[^\s<>@,]+@[^\s<>@,]+>|[^\s<>@,]+@[^\s<>@,]+)$/.test(value),
    "must be an e-mail address, such as berth@example.com or Berth <berth@example.com>",
  ),
};

export type MailSettings = { url: string; from: string };

/** The settings of mail, or undefined when none are given. Throws ConfigError when only one is. */
export function mailOf(config: {
  smtpUrl: string | undefined;
  mailFrom: string | undefined;
}): MailSettings | undefined {
  const { smtpUrl: url, mailFrom: from } = config;
  if (url === undefined && from === undefined) return undefined;
  if (url === undefined || from === undefined)
    throw new ConfigError("SMTP_URL and MAIL_FROM need each other");
  return { url, from };
}

/** A mail on its way: whom it goes to, and what its text is made of. Secrets have no place in `data`. */
export type Mail = {
  id: string;
  kind: string;
  address: string;
  data: Record<string, string>;
  /** How long ago it was queued. */
  ageSeconds: number;
};

export type Letter = { subject: string; text: string };

/** Queues a mail in the caller's transaction; it is sent after the commit, by whichever replica comes first. */
export function queueMail(db: Db, mail: Pick<Mail, "kind" | "address" | "data">): Promise<number> {
  return execute(db, "mail_queue", "insert into mails (id, kind, address, data) values ($1, $2, $3, $4)", [
    newId("mail"),
    mail.kind,
    mail.address,
    mail.data,
  ]);
}

// The pauses of docs/identity.md#mail.
const RETRY_SECONDS = [30, 2 * 60, 10 * 60, 3600, 6 * 3600, 24 * 3600];
const POLL_MS = 1_000;
const BATCH = 10;
/** A mail that was taken is nobody else's for so long, longer than a delivery may last. */
const LEASE_SECONDS = 180;
const DELIVERY_MS = 120_000;

/**
 * Sends what is queued in `mails` of the service's schema. `compose` makes the text at the time of sending, or
 * undefined when the mail is of no use any more. A mail has one Message-ID however often it is tried: a process
 * that dies between delivery and its note sends it again under the same.
 */
export function startMailer(options: {
  pool: Pool;
  log: Logger;
  settings: MailSettings;
  compose: (mail: Mail) => Promise<Letter | undefined>;
}) {
  const { pool, log, settings, compose } = options;
  const domain = /@([^>]+)/.exec(settings.from)![1];
  const transport = nodemailer.createTransport({
    url: settings.url,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    dnsTimeout: 10_000,
    socketTimeout: 30_000,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  let stopped = false;
  let wake = () => {};

  async function deliver(mail: Taken): Promise<void> {
    try {
      const letter = await compose(mail);
      if (letter) await within(DELIVERY_MS, transport.sendMail(messageOf(mail, letter)));
      await forgetMail(pool, mail.id);
    } catch (error) {
      const { code, responseCode } = error as { code?: string; responseCode?: number };
      const seconds = RETRY_SECONDS[mail.tries - 1];
      const refused = code === "EENVELOPE" && (responseCode ?? 0) >= 500;
      const about = { mail: mail.id, kind: mail.kind, tries: mail.tries, code, responseCode };
      // The error itself may quote the address, or the text.
      if (refused || seconds === undefined) {
        log.error(about, "a mail could not be delivered and is given up");
        await forgetMail(pool, mail.id);
      } else {
        log.warn(about, "a mail could not be delivered and is tried again");
        await retryMail(pool, mail, seconds);
      }
    }
  }

  function messageOf(mail: Mail, letter: Letter) {
    return {
      messageId: `<${mail.id}@${domain}>`,
      from: settings.from,
      // Not a text, which could hold several addresses.
      to: { name: "", address: mail.address },
      subject: oneLine(letter.subject),
      text: letter.text,
      headers: { "Auto-Submitted": "auto-generated" },
    };
  }

  async function run(): Promise<void> {
    while (!stopped) {
      try {
        const taken = await takeMails(pool);
        await Promise.all(taken.map(deliver));
        if (taken.length === BATCH) continue;
      } catch (error) {
        log.warn({ err: error }, "mails wait");
      }
      if (!stopped)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, POLL_MS);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
    }
  }
  const running = run();
  return {
    /** Ends after the deliveries that are under way; what takes longer than 5 s is sent again by the next process. */
    stop: async () => {
      stopped = true;
      wake();
      await within(5_000, running).catch(() => {});
      transport.close();
    },
  };
}

/** A text on one line, without what mail programs do not show as it is: for names in subjects and bodies. */
export function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .slice(0, 200);
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(Object.assign(new Error("It took too long."), { code: "ETIMEDOUT" })),
      ms,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

type Taken = Mail & { tries: number };

function takeMails(db: Db): Promise<Taken[]> {
  return many<Taken>(
    db,
    "mails_take",
    `update mails set tries = tries + 1, due_at = now() + make_interval(secs => $2)
     where id in (select id from mails where due_at <= now() order by due_at limit $1 for update skip locked)
     returning id, kind, address, data, tries, extract(epoch from now() - created_at)::float8 as "ageSeconds"`,
    [BATCH, LEASE_SECONDS],
  );
}

// Of a try that lasted longer than its lease, the one that followed decides.
function retryMail(db: Db, { id, tries }: Taken, seconds: number): Promise<number> {
  const text = "update mails set due_at = now() + make_interval(secs => $3) where id = $1 and tries = $2";
  return execute(db, "mail_retry", text, [id, tries, seconds]);
}

function forgetMail(db: Db, id: string): Promise<number> {
  return execute(db, "mail_forget", "delete from mails where id = $1", [id]);
}
