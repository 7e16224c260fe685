import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createPool, type Pool, transaction } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { startMailbox } from "../testing/smtp-server.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { type MailContent, mailFields, oneLine, queueMail, toMailSettings } from "./mail.ts";
import { startMailer } from "./mailer.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await testDatabase(["identity"]);
  pool = createPool(database.url("identity"));
  await migrate(pool, join(import.meta.dirname, "../../identity/migrations"));
});
beforeEach(() => pool.query("delete from mails"));
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const from = "Berth <berth@mail.example.com>";
const letter: MailContent = { subject: "Hello", text: "A text with ünïcode.\n", html: "<p>A text</p>" };

function mailer(url: string, compose: () => Promise<MailContent | undefined> = async () => letter) {
  const lines: string[] = [];
  const log = createLog("mail-test", "debug", (line) => void lines.push(line));
  return { ...startMailer({ pool, log, settings: { url, from }, compose }), lines };
}

const queue = (address: string) => queueMail(pool, { kind: "test", address, data: {} });
const waiting = async () => (await pool.query("select * from mails")).rows;
const drained = () => eventually("all mails are gone", async () => (await waiting()).length === 0);
const now = () => pool.query("update mails set due_at = now()");

test("a mail goes out after its transaction, and not when that fails", async () => {
  const box = await startMailbox({ password: "p@ss" });
  const url = box.url.replace("p@ss", "p%40ss");
  const { stop } = mailer(url);
  await transaction(pool, async (tx) => {
    await queueMail(tx, { kind: "test", address: "never@example.com", data: {} });
    throw new Error("undone");
  }).catch(() => {});
  await transaction(pool, (tx) => queueMail(tx, { kind: "test", address: "ada@example.com", data: {} }));
  await drained();
  await stop();
  await box.stop();
  expect(box.received).toHaveLength(1);
  const [mail] = box.received;
  expect(mail).toMatchObject({ from: "berth@mail.example.com", to: ["ada@example.com"] });
  expect(mail!.text).toContain("A text with ünïcode.");
  expect(mail!.headers.get("message-id")).toMatch(/^<mail_\w{26}@mail\.example\.com>$/);
  expect(mail!.headers.get("from")).toBe("Berth <berth@mail.example.com>");
  expect(mail!.headers.get("auto-submitted")).toBe("auto-generated");
});

test("of two processes each mail is sent by one", async () => {
  const box = await startMailbox();
  const addresses = Array.from({ length: 40 }, (_, n) => `n${n}@example.com`);
  await Promise.all(addresses.map(queue));
  const both = [mailer(box.url), mailer(box.url)];
  await drained();
  await Promise.all(both.map((each) => each.stop()));
  await box.stop();
  expect(box.received.flatMap(({ to }) => to).sort()).toEqual([...addresses].sort());
});

test("a mail whose confirmation was lost is sent again under the same Message-ID", async () => {
  const box = await startMailbox({ refuse: (_to, tries) => (tries === 1 ? "drop" : undefined) });
  await queue("ada@example.com");
  const { stop } = mailer(box.url);
  await eventually(
    "it is put off",
    async () => (await waiting())[0]?.tries === 1 && box.received.length === 1,
  );
  await eventually("it is due in 30 s, and was taken back", async () => {
    const { rows } = await pool.query("select due_at < now() + interval '37 s' as soon from mails");
    return rows[0]?.soon;
  });
  await now();
  await drained();
  await stop();
  await box.stop();
  const ids = box.received.map(({ headers }) => headers.get("message-id"));
  expect(ids).toHaveLength(2);
  expect(new Set(ids).size).toBe(1);
});

test("what is refused for now is tried again after 30 s, 2 m, 10 m, 1 h, 6 h and 24 h, then given up", async () => {
  const box = await startMailbox({ refuse: () => 451 });
  await queue("later@example.com");
  const { stop, lines } = mailer(box.url);
  for (const [n, seconds] of [30, 120, 600, 3600, 6 * 3600, 24 * 3600].entries()) {
    await eventually(`try ${n + 1} is over`, async () => {
      const text = "select tries, extract(epoch from due_at - now())::float8 as left from mails";
      const [row] = (await pool.query(text)).rows;
      return row.tries === n + 1 && row.left <= seconds * 1.2 && row.left > seconds * 0.8 - 10;
    });
    await now();
  }
  await drained();
  await stop();
  await box.stop();
  expect(box.tries("later@example.com")).toBe(7);
  expect(lines.join("\n")).toContain("given up");
  expect(lines.join("\n")).not.toContain("later@example.com");
});

test("an address that does not exist is given up at once", async () => {
  const box = await startMailbox({ refuse: () => 550 });
  await queue("nobody@example.com");
  const { stop } = mailer(box.url);
  await drained();
  await stop();
  await box.stop();
  expect(box.tries("nobody@example.com")).toBe(1);
});

test("a server that is away, or takes no password, keeps mails waiting and its password out of the log", async () => {
  const box = await startMailbox({ password: "right" });
  await queue("ada@example.com");
  const { stop, lines } = mailer(box.url.replace("right", "hunter2-wrong"));
  await eventually("it is put off", async () => lines.some((line) => line.includes("tried again")));
  await stop();
  expect(await waiting()).toHaveLength(1);
  expect(lines.join("\n")).not.toContain("hunter2");
  await now();
  const next = mailer(box.url);
  await drained();
  await next.stop();
  await box.stop();
  expect(box.received).toHaveLength(1);
});

test("a mail that has no use any more is not sent, and one whose text fails waits", async () => {
  const box = await startMailbox();
  await queue("old@example.com");
  const { stop } = mailer(box.url, async () => undefined);
  await drained();
  await stop();
  await queue("broken@example.com");
  const failing = mailer(box.url, async () => {
    throw new Error("no text");
  });
  await eventually("it is put off", async () => failing.lines.some((line) => line.includes("tried again")));
  await failing.stop();
  await box.stop();
  expect(box.received).toEqual([]);
  expect(await waiting()).toHaveLength(1);
});

test("what a process left when it died is taken up when its lease is over", async () => {
  const box = await startMailbox();
  await queue("ada@example.com");
  await pool.query("update mails set tries = 1, due_at = now() + interval '3 minutes'");
  const { stop } = mailer(box.url);
  await queue("other@example.com");
  await eventually("the other went out", async () => box.received.length === 1);
  expect(box.for("ada@example.com")).toEqual([]);
  await now();
  await drained();
  await stop();
  await box.stop();
  expect(box.for("ada@example.com")).toHaveLength(1);
});

test("neither a subject nor an address can add headers or receivers", async () => {
  const box = await startMailbox();
  const hostile = "Hi\r\nBcc: all@example.com\r\n\r\nbody \u202Egnp.exe\u0000";
  const { stop } = mailer(box.url, async () => ({
    subject: hostile,
    text: "text\n.\nMAIL FROM:<x@example.com>\n",
    html: "",
  }));
  await queue("ada@example.com, eve@example.com");
  await queue("bob@example.com");
  await eventually("bob's went out", async () => box.for("bob@example.com").length === 1);
  await stop();
  await box.stop();
  const [mail] = box.for("bob@example.com");
  expect(mail!.headers.has("bcc")).toBe(false);
  expect(mail!.headers.get("subject")).toBe("Hi Bcc: all@example.com body gnp.exe");
  expect(mail!.text).toContain("MAIL FROM:<x@example.com>");
  expect(box.received.flatMap(({ to }) => to)).not.toContain("eve@example.com");
});

test("oneLine keeps words, in any script, and nothing that hides or moves them", () => {
  expect(oneLine("  Zoë\tÅ\n東京\u2028x\u200By ")).toBe("Zoë Å 東京 x y");
  expect(oneLine("a".repeat(500))).toHaveLength(200);
});

test("mail is configured whole or not at all", () => {
  expect(toMailSettings({ smtpUrl: undefined, mailFrom: undefined })).toBeUndefined();
  expect(toMailSettings({ smtpUrl: "smtp://h", mailFrom: from })).toEqual({ url: "smtp://h", from });
  expect(() => toMailSettings({ smtpUrl: "smtp://h", mailFrom: undefined })).toThrow("must be set together");
  for (const good of ["a@example.com", "Berth <a@example.com>", "Berth, Inc. <a@example.com>"])
    expect(mailFields.mailFrom.parse(good)).toBe(good);
  for (const bad of ["a", "a@b, c@d", "X <a@b>, <c@d>", "X\r\nBcc: e@f <a@b>", "<a@b"])
    expect(() => mailFields.mailFrom.parse(bad)).toThrow("must be an e-mail address");
  expect(() => mailFields.smtpUrl.parse("http://h")).toThrow("smtp://");
});
