import { newId } from "../ids.ts";
import { type Db, execute } from "../postgres/db.ts";
import { ConfigError, type ConfigOf, checked, optionalUrl } from "../process/config.ts";

/** Where `npm start` answers unless another port is chosen. */
export const DEFAULT_ORIGIN = "http://127.0.0.1:4000";

/** The settings of a process that can send mail: SMTP_URL and MAIL_FROM are set both, with the origin, or neither is. */
export const mailFields = {
  /** smtp:// (STARTTLS if the server offers it, always with `?requireTLS=true`) or smtps://, with credentials. */
  smtpUrl: optionalUrl("SMTP_URL", ["smtp", "smtps"]),
  mailFrom: checked(
    "MAIL_FROM",
    (value) => /^(?:[^<>@"\r\n]+ <[^\s<>@,]+@[^\s<>@,]+>|[^\s<>@,]+@[^\s<>@,]+)$/.test(value),
    "must be an e-mail address, such as berth@example.com or Berth <berth@example.com>",
  ),
  /** The origin at which clients reach the gateway, and which links in mails lead to. */
  publicOrigin: optionalUrl("PUBLIC_ORIGIN", ["http", "https"]),
};

export type MailSettings = { url: string; from: string };

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

/** Returns where links lead, and how mail is sent if it is. Throws ConfigError when links in mails would lead nowhere. */
export function linkSettings(config: ConfigOf<typeof mailFields>) {
  const mail = toMailSettings(config);
  if (mail && config.publicOrigin === undefined)
    throw new ConfigError("SMTP_URL needs PUBLIC_ORIGIN, to which the links in mails lead");
  return { mail, origin: config.publicOrigin ?? DEFAULT_ORIGIN };
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

/** Every mail has both forms; `toContent` makes them. */
export type MailContent = {
  subject: string;
  text: string;
  html: string;
  headers?: Record<string, string> | undefined;
};

type NewMail = Pick<Mail, "kind" | "address" | "data"> & {
  queue?: string;
  /** How long it waits before it is due. */
  waitMs?: number;
};

/** Queues a mail in the caller's transaction. A replica sends it after the commit; mails of one queue do not wait for another's. */
export function queueMail(db: Db, mail: NewMail): Promise<number> {
  return queueMails(db, [mail]);
}

/** As `queueMail`, for many mails in one statement. */
export async function queueMails(db: Db, mails: NewMail[]): Promise<number> {
  if (mails.length === 0) return 0;
  return execute(
    db,
    "mails_queue",
    `insert into mails (id, kind, address, data, queue, due_at)
     select id, kind, address, data, queue, now() + make_interval(secs => wait_ms / 1000)
     from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::float8[])
       m (id, kind, address, data, queue, wait_ms)`,
    [
      mails.map(() => newId("mail")),
      mails.map(({ kind }) => kind),
      mails.map(({ address }) => address),
      mails.map(({ data }) => data),
      mails.map(({ queue = "" }) => queue),
      mails.map(({ waitMs = 0 }) => waitMs),
    ],
  );
}

/** Returns a text on one line, without characters that mail programs do not show: for names in subjects and bodies. */
export function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .slice(0, 200);
}
