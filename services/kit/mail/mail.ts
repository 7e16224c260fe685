import nodemailer from "nodemailer";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import { type Db, execute, many, type Pool, type Tx, transaction } from "../postgres/db.ts";
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

export type MailContent = {
  subject: string;
  text: string;
  html?: string | undefined;
  headers?: Record<string, string> | undefined;
};

/** What became of a try to send a mail. `reason` is a status of SMTP, an error code, or why it was not sent. */
export type MailOutcome = {
  state: "sent" | "retrying" | "failed" | "dropped";
  reason?: string | undefined;
  /** The server refused the address for good. */
  refused?: boolean;
};

type NewMail = Pick<Mail, "kind" | "address" | "data"> & { queue?: string };

/** Queues a mail in the caller's transaction. A replica sends it after the commit; mails of one queue do not wait for another's. */
export function queueMail(db: Db, mail: NewMail): Promise<number> {
  return queueMails(db, [mail]);
}

/** As `queueMail`, for many mails in one statement. */
export function queueMails(db: Db, mails: NewMail[]): Promise<number> {
  return execute(
    db,
    "mails_queue",
    `insert into mails (id, kind, address, data, queue)
     select * from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::text[])`,
    [
      mails.map(() => newId("mail")),
      mails.map(({ kind }) => kind),
      mails.map(({ address }) => address),
      mails.map(({ data }) => data),
      mails.map(({ queue = "" }) => queue),
    ],
  );
}

// docs/identity.md#mail
const RETRY_SECONDS = [30, 2 * 60, 10 * 60, 3600, 6 * 3600, 24 * 3600];
const POLL_MS = 1_000;
const BATCH = 10;
/** How long no other replica takes a mail that one took; longer than a delivery may last. */
const LEASE_SECONDS = 180;
const DELIVERY_MS = 120_000;

/**
 * Sends the mails that are queued in the service's schema, each of the `queues` by itself. `compose` returns the content at
 * the time of sending, or why the mail is not sent; undefined when it is obsolete. `record` stores what became of a
 * try, in the transaction that takes the mail out of the queue or puts it back. A mail that is sent again, because the
 * process died before it recorded the delivery, has the same Message-ID.
 */
export function startMailer(options: MailerOptions) {
  const { settings, queues = [""] } = options;
  const transport = nodemailer.createTransport({
    url: settings.url,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    dnsTimeout: 10_000,
    socketTimeout: 30_000,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const senders = queues.map((queue) => startSender(options, transport, queue));
  return {
    /** Waits up to 5 s for deliveries under way. The next process sends again those that take longer. */
    stop: async () => {
      await Promise.all(senders.map((sender) => sender.stop()));
      transport.close();
    },
  };
}

type MailerOptions = {
  pool: Pool;
  log: Logger;
  settings: MailSettings;
  compose: (mail: Mail) => Promise<MailContent | Pick<MailOutcome, "reason"> | undefined>;
  queues?: readonly string[];
  record?: (tx: Tx, mail: Mail & { tries: number }, outcome: MailOutcome) => Promise<void>;
};

function startSender(options: MailerOptions, transport: Transport, queue: string) {
  const { pool, log, settings, compose, record } = options;
  let stopped = false;
  let wake = () => {};

  async function deliver(mail: TakenMail): Promise<void> {
    const outcome = await send(mail).catch((error) => failed(mail, error));
    const { state, retrySeconds } = outcome;
    await transaction(pool, async (tx) => {
      const changed =
        retrySeconds === undefined ? await deleteMail(tx, mail) : await retryMail(tx, mail, retrySeconds);
      // A delivery that outlasted its lease does not overwrite what the next one records, unless it is done.
      if (changed > 0 || state === "sent") await record?.(tx, mail, outcome);
    });
  }

  async function send(mail: TakenMail): Promise<Recorded> {
    const content = await compose(mail);
    if (!content || !("subject" in content)) return { state: "dropped", reason: content?.reason };
    await withTimeout(DELIVERY_MS, transport.sendMail(messageOf(settings, mail, content)));
    return { state: "sent" };
  }

  /** Returns what becomes of a mail that could not be sent. The error itself is not logged: it may quote the address or the text. */
  function failed(mail: TakenMail, error: unknown): Recorded {
    const { code, responseCode } = error as { code?: string; responseCode?: number };
    const retrySeconds = RETRY_SECONDS[mail.tries - 1];
    const refused = code === "EENVELOPE" && (responseCode ?? 0) >= 500;
    const about = { mail: mail.id, kind: mail.kind, tries: mail.tries, code, responseCode };
    const reason = responseCode ? String(responseCode) : code;
    if (refused || retrySeconds === undefined) {
      log.error(about, "a mail could not be delivered and is given up");
      return { state: "failed", reason, refused };
    }
    log.warn(about, "a mail could not be delivered and will be tried again");
    return { state: "retrying", reason, retrySeconds };
  }

  async function run(): Promise<void> {
    while (!stopped) {
      try {
        const taken = await takeMails(pool, queue);
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
    stop: async () => {
      stopped = true;
      wake();
      await withTimeout(5_000, running).catch(() => {});
    },
  };
}

type Transport = ReturnType<typeof nodemailer.createTransport>;
type Recorded = MailOutcome & { retrySeconds?: number };

function messageOf({ from }: MailSettings, mail: Mail, content: MailContent) {
  const domain = /@([^>]+)/.exec(from)![1];
  return {
    messageId: `<${mail.id}@${domain}>`,
    from,
    // As an object: a text could hold several addresses.
    to: { name: "", address: mail.address },
    subject: oneLine(content.subject),
    text: content.text,
    ...(content.html && { html: content.html }),
    headers: { "Auto-Submitted": "auto-generated", ...content.headers },
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

function takeMails(db: Db, queue: string): Promise<TakenMail[]> {
  return many<TakenMail>(
    db,
    "mails_take",
    `update mails set tries = tries + 1, due_at = now() + make_interval(secs => $2)
     where id in (select id from mails where queue = $3 and due_at <= now() order by due_at limit $1
                  for update skip locked)
     returning id, kind, address, data, tries, extract(epoch from now() - created_at)::float8 as "ageSeconds"`,
    [BATCH, LEASE_SECONDS, queue],
  );
}

function retryMail(db: Db, { id, tries }: TakenMail, seconds: number): Promise<number> {
  const text = "update mails set due_at = now() + make_interval(secs => $3) where id = $1 and tries = $2";
  return execute(db, "mail_retry", text, [id, tries, seconds]);
}

function deleteMail(db: Db, { id }: TakenMail): Promise<number> {
  return execute(db, "mail_forget", "delete from mails where id = $1", [id]);
}
