import nodemailer from "nodemailer";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, many, type Pool } from "../postgres/db.ts";
import { ConfigError, checked, optionalUrl } from "../process/config.ts";

/** The settings of a process that can send mail: both or neither are set. */
export const mailFields = {
  /** smtp:// (STARTTLS if the server offers it, always with `?requireTLS=true`) or smtps://, with credentials. */
  smtpUrl: optionalUrl("SMTP_URL", ["smtp", "smtps"]),
  mailFrom: checked(
    "MAIL_FROM",
    (value) => /^(?:[^<>@"\r\n]+ <[^\s<>@,]+@[^\s<>@,]+>|[^\s<>@,]+@[^\s<>@,]+)$/.test(value),
    "must be an e-mail address, such as berth@example.com or Berth <berth@example.com>",
  ),
};

type MailSettings = { url: string; from: string };

/** Returns the settings of mail, or undefined when neither is set. Throws ConfigError when only one is. */
export function toMailSettings(config: {
  smtpUrl: string | undefined;
  mailFrom: string | undefined;
}): MailSettings | undefined {
  const { smtpUrl: url, mailFrom: from } = config;
  if (url === undefined && from === undefined) return undefined;
  if (url === undefined || from === undefined)
    throw new ConfigError("SMTP_URL and MAIL_FROM must be set together");
  return { url, from };
}

/** A queued mail: its address, and what its text is made of. `data` must hold no secrets. */
export type Mail = {
  id: string;
  kind: string;
  address: string;
  data: Record<string, string>;
  /** The time since it was queued. */
  ageSeconds: number;
};

export type MailContent = { subject: string; text: string };

/** Queues a mail in the caller's transaction. A replica sends it after the commit. */
export function queueMail(db: Db, mail: Pick<Mail, "kind" | "address" | "data">): Promise<number> {
  return execute(db, "mail_queue", "insert into mails (id, kind, address, data) values ($1, $2, $3, $4)", [
    newId("mail"),
    mail.kind,
    mail.address,
    mail.data,
  ]);
}

// docs/identity.md#mail
const RETRY_SECONDS = [30, 2 * 60, 10 * 60, 3600, 6 * 3600, 24 * 3600];
const POLL_MS = 1_000;
const BATCH = 10;
/** How long no other replica takes a mail that one took; longer than a delivery may last. */
const LEASE_SECONDS = 180;
const DELIVERY_MS = 120_000;

/**
 * Sends the mails that are queued in the service's schema. `compose` returns the text at the time of sending, or
 * undefined when the mail is obsolete. A mail that is sent again, because the process died before it recorded the
 * delivery, has the same Message-ID.
 */
export function startMailer(options: {
  pool: Pool;
  log: Logger;
  settings: MailSettings;
  compose: (mail: Mail) => Promise<MailContent | undefined>;
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

  async function deliver(mail: TakenMail): Promise<void> {
    try {
      const letter = await compose(mail);
      if (letter) await withTimeout(DELIVERY_MS, transport.sendMail(messageOf(mail, letter)));
      await deleteMail(pool, mail.id);
    } catch (error) {
      const { code, responseCode } = error as { code?: string; responseCode?: number };
      const seconds = RETRY_SECONDS[mail.tries - 1];
      const refused = code === "EENVELOPE" && (responseCode ?? 0) >= 500;
      const about = { mail: mail.id, kind: mail.kind, tries: mail.tries, code, responseCode };
      // The error itself is not logged: it may quote the address or the text.
      if (refused || seconds === undefined) {
        log.error(about, "a mail could not be delivered and is given up");
        await deleteMail(pool, mail.id);
      } else {
        log.warn(about, "a mail could not be delivered and will be tried again");
        await retryMail(pool, mail, seconds);
      }
    }
  }

  function messageOf(mail: Mail, letter: MailContent) {
    return {
      messageId: `<${mail.id}@${domain}>`,
      from: settings.from,
      // As an object: a text could hold several addresses.
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
        log.warn({ err: error }, "mails could not be sent");
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
    /** Waits up to 5 s for deliveries under way. The next process sends again those that take longer. */
    stop: async () => {
      stopped = true;
      wake();
      await withTimeout(5_000, running).catch(() => {});
      transport.close();
    },
  };
}

/** Returns a text on one line, without characters that mail programs do not show: for names in subjects and bodies. */
export function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .slice(0, 200);
}

async function withTimeout<T>(ms: number, work: Promise<T>): Promise<T> {
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

type TakenMail = Mail & { tries: number };

function takeMails(db: Db): Promise<TakenMail[]> {
  return many<TakenMail>(
    db,
    "mails_take",
    `update mails set tries = tries + 1, due_at = now() + make_interval(secs => $2)
     where id in (select id from mails where due_at <= now() order by due_at limit $1 for update skip locked)
     returning id, kind, address, data, tries, extract(epoch from now() - created_at)::float8 as "ageSeconds"`,
    [BATCH, LEASE_SECONDS],
  );
}

// A delivery that outlasted its lease does not overwrite what the next one records.
function retryMail(db: Db, { id, tries }: TakenMail, seconds: number): Promise<number> {
  const text = "update mails set due_at = now() + make_interval(secs => $3) where id = $1 and tries = $2";
  return execute(db, "mail_retry", text, [id, tries, seconds]);
}

function deleteMail(db: Db, id: string): Promise<number> {
  return execute(db, "mail_forget", "delete from mails where id = $1", [id]);
}
