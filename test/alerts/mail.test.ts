import { join } from "node:path";
import { afterAll, beforeAll, describe, test } from "vitest";
import { createLog } from "../../services/kit/log.ts";
import { queueMail } from "../../services/kit/mail/mail.ts";
import { startMailer } from "../../services/kit/mail/mailer.ts";
import { createPool, type Pool } from "../../services/kit/postgres/db.ts";
import { migrate } from "../../services/kit/postgres/migrate.ts";
import { metricsText } from "../../services/kit/telemetry.ts";
import { startMailbox } from "../../services/kit/testing/smtp-server.ts";
import { testDatabase } from "../../services/kit/testing/testing.ts";
import { expectAlert, metricIn, promtool, scraper } from "./evaluate.ts";

describe.skipIf(!promtool)("an operator is alerted that mails do not go out", () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let pool: Pool;
  beforeAll(async () => {
    database = await testDatabase(["identity"]);
    pool = createPool(database.url("identity"));
    await migrate(pool, join(import.meta.dirname, "../../services/identity/migrations"));
  });
  afterAll(async () => {
    await pool?.end();
    await database?.drop();
  });

  const scrape = scraper(metricsText);
  const mailer = (url: string) =>
    startMailer({
      ...{ pool, log: createLog("alerts", "silent"), settings: { url, from: "berth@example.com" } },
      compose: async () => ({ subject: "Hello", text: "The text of a letter", html: "" }),
    });
  const queue = (count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        queueMail(pool, { kind: "test", address: `n${n}@example.com`, data: {} }),
      ),
    );

  test("as the server hangs on all that are tried at once, and others wait", async () => {
    const box = await startMailbox({ refuse: () => "hang" });
    const { stop } = mailer(box.url);
    const before = await scrape.untilZero("berth_mails_overdue_seconds");
    await queue(11);
    const during = await scrape.aging("berth_mails_overdue_seconds");
    await box.stop();
    const after = await scrape.untilZero("berth_mails_overdue_seconds");
    await stop();
    await expectAlert("BerthMailsWaiting", { before, during, after });
  });

  test("as the server takes the password of none", async () => {
    await pool.query("delete from mails");
    const box = await startMailbox({ password: "right" });
    const { stop } = mailer(box.url.replace("right", "wrong"));
    const before = await scrape.untilZero("berth_mails_waiting");
    await queue(1);
    const tries = metricIn(before, "berth_mails_total")!;
    const during = await scrape.until("berth_mails_total", (count) => count > tries);
    await Promise.all([stop(), box.stop()]);
    await expectAlert("BerthMailsWaiting", { before, during, after: during });
  });
});
