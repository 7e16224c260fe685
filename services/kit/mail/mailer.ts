import nodemailer from "nodemailer";
import { createPastSlow } from "../concurrency/past-slow.ts";
import type { Logger } from "../log.ts";
import { type Pool, type Tx, transaction } from "../postgres/db.ts";
import { SEND_MAILS } from "../tasks/shared-tasks.ts";
import { type Next, startTask } from "../tasks/task.ts";
import { type Mail, type MailContent, type MailSettings, oneLine } from "./mail.ts";
import { mailTries, watchQueues } from "./metrics.ts";
import {
  type Attempted,
  afterFailure,
  afterSmtpError,
  MAX_TRIES,
  type MailOutcome,
  type SmtpError,
} from "./outcome.ts";
import { deleteMail, retryMail, type TakenMail, takeMails } from "./sql.ts";

/** How many mails of a queue are being sent at once, besides those that are slow. */
const AT_ONCE = 10;
const MOST_AT_ONCE = 100;
/** How long no other replica takes a mail that one took; longer than a delivery may last. */
const LEASE_SECONDS = 180;
const DELIVERY_MS = 60_000;

type MailerOptions = {
  pool: Pool;
  log: Logger;
  settings: MailSettings;
  /** Returns the content at the time of sending, or why the mail is not sent; undefined when it is obsolete. */
  compose: (mail: Mail) => Promise<MailContent | Pick<MailOutcome, "reason"> | undefined>;
  queues?: readonly string[];
  /** Stores what became of a try, in the transaction that takes the mail out of the queue or puts it back. */
  record?: (tx: Tx, mail: Mail & { tries: number }, outcome: MailOutcome) => Promise<void>;
};

/**
 * Sends the mails that are queued in the service's schema, each of the `queues` by itself. A mail that is sent again,
 * because the process died before it recorded the delivery, has the same Message-ID.
 */
export function startMailer(options: MailerOptions) {
  const { pool, settings, queues = [""] } = options;
  // Not pooled: a connection for each delivery, so that none waits for another's.
  const transport = nodemailer.createTransport({
    url: settings.url,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    dnsTimeout: 10_000,
    socketTimeout: DELIVERY_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const unwatch = watchQueues(pool, queues);
  const senders = queues.map((queue) => startSender(options, transport, queue));
  return {
    /** Waits up to 5 s for deliveries under way. The next process sends again those that take longer. */
    stop: async () => {
      unwatch();
      await Promise.all(senders.map((sender) => sender.stop()));
      transport.close();
    },
  };
}

type Transport = ReturnType<typeof nodemailer.createTransport>;

function startSender(options: MailerOptions, transport: Transport, queue: string) {
  const { pool, log, settings, compose, record } = options;

  async function deliver(mail: TakenMail): Promise<void> {
    const outcome = await attempt(mail);
    const { state, retrySeconds } = outcome;
    await transaction(pool, async (tx) => {
      const changed =
        retrySeconds === undefined ? await deleteMail(tx, mail) : await retryMail(tx, mail, retrySeconds);
      // A delivery that outlasted its lease does not overwrite what the next one records, unless it is done.
      if (changed > 0 || state === "sent") await record?.(tx, mail, outcome);
    });
    mailTries.inc({ queue, outcome: state });
  }

  async function attempt(mail: TakenMail): Promise<Attempted> {
    if (mail.tries > MAX_TRIES) return failed(mail, { state: "failed", reason: "interrupted" });
    try {
      const content = await compose(mail);
      if (!content || !("subject" in content)) return { state: "dropped", reason: content?.reason };
      return await send(mail, content);
    } catch (error) {
      const { name, stack } = error as Error;
      const at = stack?.split("\n").find((line) => /^\s+at /.test(line));
      return failed(mail, afterFailure(mail.tries, "not_composed"), { error: name, at: at?.trim() });
    }
  }

  async function send(mail: TakenMail, content: MailContent): Promise<Attempted> {
    const signal = AbortSignal.timeout(DELIVERY_MS);
    return transport.sendMail({ ...messageOf(settings, mail, content), signal }).then(
      () => ({ state: "sent" }),
      (error: SmtpError) => {
        const { code, responseCode, command } = error;
        return failed(mail, afterSmtpError(mail.tries, error), { code, responseCode, command });
      },
    );
  }

  /** Logs a try that failed. Errors themselves are not logged: they may quote the address or the text. */
  function failed({ id, kind, tries }: TakenMail, outcome: Attempted, cause: object = {}): Attempted {
    const about = { mail: id, kind, tries, reason: outcome.reason, ...cause };
    if (outcome.state === "failed") log.error(about, "a mail could not be delivered and is given up");
    else log.warn(about, "a mail could not be delivered and will be tried again");
    return outcome;
  }

  /** Takes as many mails as may be under way besides those that are. */
  async function takeSome(): Promise<Next> {
    const limit = sending.room();
    const taken = limit > 0 ? await takeMails(pool, queue, { limit, leaseSeconds: LEASE_SECONDS }) : [];
    for (const mail of taken)
      sending.begin(
        deliver(mail).catch((error) =>
          log.warn({ err: error }, "what became of a mail could not be recorded"),
        ),
      );
    return limit > 0 && taken.length === limit ? "more" : undefined;
  }

  const sending = createPastSlow({ atOnce: AT_ONCE, most: MOST_AT_ONCE }, () => task.wake());
  const task = startTask(SEND_MAILS, takeSome, { log, ...(queue && { of: queue }) });
  return { stop: () => sending.settle(task.stop()) };
}

function messageOf({ from }: MailSettings, mail: Mail, content: MailContent) {
  const domain = /@([^>]+)/.exec(from)![1];
  return {
    messageId: `<${mail.id}@${domain}>`,
    from,
    // As an object: a text could hold several addresses.
    to: { name: "", address: mail.address },
    subject: oneLine(content.subject),
    text: content.text,
    html: content.html,
    headers: { "Auto-Submitted": "auto-generated", ...content.headers },
  };
}
