import { join } from "node:path";
import { register } from "prom-client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createPool, type Pool, type Tx } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { startMailbox } from "../testing/smtp-server.ts";
import { eventually, testDatabase } from "../testing/testing.ts";
import { type Mail, type MailContent, queueMail } from "./mail.ts";
import { startMailer } from "./mailer.ts";
import { afterFailure, afterSmtpError, type MailOutcome } from "./outcome.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;

beforeAll(async () => {
  database = await testDatabase(["identity"]);
  pool = createPool(database.url("identity"));
  await migrate(pool, join(import.meta.dirname, "../../identity/migrations"));
  await pool.query("create table outcomes (id text, tries int, state text, reason text, refused boolean)");
});
beforeEach(() => pool.query("truncate mails, outcomes"));
afterEach(async () => {
  await Promise.all(opened.splice(0).map((stop) => stop()));
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

/** What the test at hand opened. */
const opened: (() => Promise<void>)[] = [];

async function mailbox(options: Parameters<typeof startMailbox>[0] = {}) {
  const box = await startMailbox(options);
  opened.push(box.stop);
  return box;
}

const letter: MailContent = { subject: "Hello", text: "The text of a letter", html: "<p>The text</p>" };

async function record(tx: Tx, { id, tries }: Mail & { tries: number }, outcome: MailOutcome) {
  const { state, reason, refused } = outcome;
  await tx.query("insert into outcomes values ($1, $2, $3, $4, $5)", [id, tries, state, reason, refused]);
}

type Options = Partial<Pick<Parameters<typeof startMailer>[0], "compose" | "record" | "queues">>;

function mailer(url: string, options: Options = {}) {
  const lines: string[] = [];
  const log = createLog("mail-test", "debug", (line) => void lines.push(line));
  const settings = { url, from: "berth@example.com" };
  const { stop } = startMailer({ pool, log, settings, compose: async () => letter, record, ...options });
  opened.push(stop);
  return { stop, lines };
}

const queue = (address: string, name = "") =>
  queueMail(pool, { kind: "test", address, data: {}, queue: name });
const mails = async () => (await pool.query("select * from mails")).rows;
const outcomes = async () =>
  (await pool.query("select tries, state, reason, refused from outcomes order by tries")).rows;
const recorded = (count: number) =>
  eventually(`${count} tries are recorded`, async () => (await outcomes()).length >= count && outcomes());
const now = () => pool.query("update mails set due_at = now()");

describe("a queue", () => {
  const queues = ["critical", "bulk"];
  const manyBulk = (count: number) =>
    pool.query(
      `insert into mails (id, kind, address, data, queue)
       select 'mail_b' || n, 'test', 'bulk@example.com', '{}', 'bulk' from generate_series(1, $1::int) n`,
      [count],
    );

  test("whose server hangs does not delay another", async () => {
    const box = await mailbox({ refuse: (to) => (to === "bulk@example.com" ? "hang" : undefined) });
    await manyBulk(50);
    mailer(box.url, { queues });
    await eventually("as many hang as are tried at once", async () => box.tries("bulk@example.com") >= 10);
    for (let n = 1; n <= 30; n++) await queue(`n${n}@example.com`, "critical");
    await eventually("the others are sent", async () => box.received.length === 30);
  });

  test("goes on while many of its deliveries hang", async () => {
    const box = await mailbox({ refuse: (to) => (to === "slow@example.com" ? "hang" : undefined) });
    const others = Array.from({ length: 30 }, (_, n) => `n${n}@example.com`);
    for (let n = 0; n < 30; n++) await queue("slow@example.com");
    mailer(box.url);
    await eventually("they hang", async () => box.tries("slow@example.com") >= 10);
    for (const address of others) await queue(address);
    await eventually("the others are sent", async () => box.received.length === 30);
    await eventually("all that hang are tried", async () => box.tries("slow@example.com") >= 30);
    // Once each: those that hang are not given up to make room.
    expect(box.tries("slow@example.com")).toBe(30);
    await eventually("what was sent has left the queue", async () => (await mails()).length <= 30);
    expect((await mails()).map(({ tries }) => tries)).toEqual(Array.from({ length: 30 }, () => 1));
  });

  test("of 10 000 mails does not delay another, and is sent by and by", async () => {
    const box = await mailbox();
    await manyBulk(10_000);
    mailer(box.url, { queues });
    await eventually("it is under way", async () => box.for("bulk@example.com").length > 20);
    await queue("ada@example.com", "critical");
    await eventually("the other is sent", async () => box.for("ada@example.com").length === 1);
    expect(box.for("bulk@example.com").length).toBeLessThan(9_000);
  });

  test("says in the metrics how many mails wait, and since when", async () => {
    const box = await mailbox();
    const metric = async (name: string) => {
      const { values } = (await register.getSingleMetric(name)!.get()) as unknown as {
        values: { value: number; labels: Record<string, string> }[];
      };
      return Object.fromEntries(values.map(({ labels, value }) => [Object.values(labels).join(" "), value]));
    };
    const before = await metric("berth_mails_total");
    await manyBulk(3);
    await pool.query("update mails set due_at = now() - interval '1 hour', queue = 'left'");
    const { stop } = mailer(box.url, { queues: ["critical"] });
    const other = mailer(box.url, { queues: ["left"], compose: () => new Promise(() => {}) });
    await queue("ada@example.com", "critical");
    await recorded(1);
    await eventually("they are taken", async () => (await mails()).every(({ tries }) => tries === 1));
    await pool.query("update mails set due_at = now() - interval '1 hour'");
    expect(await metric("berth_mails_waiting")).toEqual({ critical: 0, left: 3 });
    const { critical, left } = await metric("berth_mails_overdue_seconds");
    expect(critical).toBe(0);
    expect(left).toBeGreaterThanOrEqual(3_600);
    await eventually("it is counted", async () => {
      const after = await metric("berth_mails_total");
      return after["critical sent"] === (before["critical sent"] ?? 0) + 1;
    });
    await Promise.all([stop(), other.stop()]);
    expect(await metric("berth_mails_waiting")).toEqual({});
  });
});

describe("what became of a try", () => {
  test("is recorded together with the queue's change, for every try", async () => {
    const box = await mailbox({ refuse: (_to, tries) => (tries < 3 ? 450 : undefined) });
    await queue("grey@example.com");
    mailer(box.url);
    await recorded(1);
    await now();
    await recorded(2);
    await now();
    expect(await recorded(3)).toEqual([
      { tries: 1, state: "retrying", reason: "450", refused: null },
      { tries: 2, state: "retrying", reason: "450", refused: null },
      { tries: 3, state: "sent", reason: null, refused: null },
    ]);
    expect(await mails()).toEqual([]);
    expect(box.received).toHaveLength(1);
  });

  test("that cannot be recorded is not: the mail is sent again, under its Message-ID, and not for ever", async () => {
    const box = await mailbox();
    await queue("ada@example.com");
    const { lines } = mailer(box.url, {
      async record(tx, mail, outcome) {
        await record(tx, mail, outcome);
        if (outcome.state === "sent") throw new Error("no room");
      },
    });
    for (let n = 1; n <= 7; n++) {
      await eventually(`it was sent ${n} times`, async () => box.received.length === n);
      await eventually("and not recorded", async () => lines.length >= n);
      expect(await outcomes()).toEqual([]);
      await now();
    }
    expect(await recorded(1)).toMatchObject([{ tries: 8, state: "failed", reason: "interrupted" }]);
    expect(await mails()).toEqual([]);
    expect(box.received).toHaveLength(7);
    expect(new Set(box.received.map(({ headers }) => headers.get("message-id"))).size).toBe(1);
  });

  test("by a process that died before it recorded it is found out by the next: one duplicate, no more", async () => {
    const box = await mailbox();
    await queue("ada@example.com");
    const [sent, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    opened.push(async () => end.resolve());
    mailer(box.url, {
      // It holds no lock of the queue by now, as if it had died just before its transaction.
      async record(tx) {
        await tx.query("rollback");
        sent.resolve();
        await end.promise;
      },
    });
    await sent.promise;
    await now();
    mailer(box.url);
    mailer(box.url);
    expect(await recorded(1)).toMatchObject([{ tries: 2, state: "sent" }]);
    expect(box.received).toHaveLength(2);
    expect(new Set(box.received.map(({ headers }) => headers.get("message-id"))).size).toBe(1);
  });

  test.each([
    ["an address", { refuse: () => 550 }, { state: "failed", reason: "550", refused: true }],
    ["a text", { refuseText: 554 }, { state: "failed", reason: "554", refused: false }],
    ["a text for now", { refuseText: 451 }, { state: "retrying", reason: "451" }],
    ["the sender", { refuseSender: 550 }, { state: "retrying", reason: "550" }],
  ] as const)("is told apart when the server refuses %s", async (_what, options, expected) => {
    const box = await mailbox(options);
    await queue("ada@example.com");
    mailer(box.url);
    expect(await recorded(1)).toMatchObject([{ tries: 1, ...expected }]);
    expect(await mails()).toHaveLength(expected.state === "failed" ? 0 : 1);
  });

  test("is that it is tried again when a server hung and went away", async () => {
    const hanging = await mailbox({ refuse: () => "hang" });
    await queue("ada@example.com");
    const first = mailer(hanging.url);
    await eventually("it is being sent", async () => hanging.tries("ada@example.com") === 1);
    await hanging.stop();
    expect(await recorded(1)).toMatchObject([{ state: "retrying" }]);
    await first.stop();
    const box = await mailbox();
    await now();
    mailer(box.url);
    expect((await recorded(2))[1]).toMatchObject({ tries: 2, state: "sent" });
  });
});

test("a mail that cannot be composed is tried as often as others, then given up, and the log says where", async () => {
  const box = await mailbox();
  await queue("secret-address@example.com");
  const { lines } = mailer(box.url, {
    compose: async ({ kind, address }) => {
      throw new TypeError(`There is no mail of kind ${kind} for ${address}`);
    },
  });
  for (let n = 1; n <= 7; n++) {
    const last = (await recorded(n))[n - 1];
    expect(last).toMatchObject({ state: n < 7 ? "retrying" : "failed", reason: "not_composed" });
    await now();
  }
  expect(await mails()).toEqual([]);
  const log = lines.join("\n");
  expect(log).toContain("TypeError");
  expect(log).toContain("faults.test.ts");
  expect(log).not.toContain("secret-address");
});

test("of two processes each mail of each queue is sent and recorded by one", async () => {
  const box = await mailbox();
  const addresses = Array.from({ length: 60 }, (_, n) => `n${n}@example.com`);
  await Promise.all(addresses.map((address, n) => queue(address, n % 2 ? "bulk" : "critical")));
  const both = [1, 2].map(() => mailer(box.url, { queues: ["critical", "bulk"] }));
  await recorded(60);
  await Promise.all(both.map((each) => each.stop()));
  expect(box.received.flatMap(({ to }) => to).sort()).toEqual(addresses.sort());
  expect(await outcomes()).toHaveLength(60);
});

test("the time to the next try differs by a fifth at most, and the last failure is the end", () => {
  for (const [n, seconds] of [30, 120, 600, 3600, 6 * 3600, 24 * 3600].entries()) {
    const at = (random: number) => afterFailure(n + 1, "x", () => random).retrySeconds;
    expect([0, 0.5, 1].map(at)).toEqual([0.8, 1, 1.2].map((part) => expect.closeTo(part * seconds)));
  }
  expect(afterFailure(7, "x")).toEqual({ state: "failed", reason: "x" });
  expect(afterSmtpError(1, { code: "EAUTH", responseCode: 535, command: "AUTH PLAIN" }).state).toBe(
    "retrying",
  );
});
