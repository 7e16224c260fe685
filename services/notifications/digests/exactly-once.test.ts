import { expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { newId } from "../../kit/ids.ts";
import { serviceClient } from "../../kit/rpc/client.ts";
import { testKeys } from "../../kit/testing/testing.ts";
import { createDirectory } from "../recipients/directory.ts";
import { startNotifications } from "../testing.ts";
import { makeDigests } from "./make-digests.ts";
import { mailScene } from "./testing.ts";

/** A service that is up but sends no mail, and the environment of processes that do. */
async function startWithoutMail() {
  const service = await startNotifications({ SMTP_URL: "", MAIL_FROM: "" });
  const mail = { SMTP_URL: service.box.url, MAIL_FROM: "Berth <berth@mail.example.com>" };
  return { service, mail, ...mailScene(service) };
}

test("a platform that was off at 08:00, twice, sends one digest when it is back, from whichever process", async () => {
  const { service, mail, send, set, toNext, quiet, subjectsOf } = await startWithoutMail();
  const ada = service.user();
  await set(ada, "social.comment", "both", "daily");
  await send("social.comment", [ada]);
  toNext("daily");
  await send("social.comment", [ada]);
  toNext("daily");
  service.clock.ms += 5 * 3_600_000;
  const processes = await Promise.all([service.startOne(mail), service.startOne(mail)]);
  await quiet();
  expect(subjectsOf(ada)).toEqual(["Your daily digest: 2 notifications"]);
  await Promise.all(processes.map((each) => each.stop()));
  await service.stop();
});

test.each(["digests", "mails"])(
  "a digest that fails while %s are written is made again, and comes once",
  async (table) => {
    const { service, mail, send, set, toNext, quiet, subjectsOf } = await startWithoutMail();
    const users = [service.user(), service.user(), service.user()];
    for (const user of users) await set(user, "social.comment", "both", "daily");
    await send("social.comment", users);
    // The sequence counts failures, which are rolled back.
    await service.pool.query(`create sequence failures;
      create function fail() returns trigger language plpgsql as $$
      begin
        if nextval('failures') <= 3 then raise exception 'killed'; end if;
        return new;
      end $$;
      create trigger fail after insert on ${table} for each row execute function fail();`);
    toNext("daily");
    const processes = await Promise.all([service.startOne(mail), service.startOne(mail)]);
    await quiet();
    for (const user of users) expect(subjectsOf(user)).toEqual(["Your daily digest: 1 notification"]);
    expect(service.logLines.join("\n")).toContain('"task":"make-digests"');
    await Promise.all(processes.map((each) => each.stop()));
    await service.stop();
  },
);

test("10 000 users get one digest each, made in parts by two workers", async () => {
  const { service, toNext } = await startWithoutMail();
  const { pool, clock, neighbours } = service;
  const users = Array.from({ length: 10_000 }, () => service.user());
  await pool.query(
    `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
       frequency, overridden, mail_state, digest_at)
     select id, user_id, '', 'social.comment', 'title', 'body', '{}', id, true, 'both', 'daily', true, 'digest', $3
     from unnest($1::text[], $2::text[]) n (id, user_id)`,
    [
      users.flatMap(() => [newId("ntf"), newId("ntf")]),
      users.flatMap(({ userId }) => [userId, userId]),
      new Date(clock.ms),
    ],
  );
  toNext("daily");
  const identity = serviceClient(InternalService, {
    url: neighbours.url,
    keys: testKeys,
    name: "notifications",
  });
  const deps = { pool, directory: createDirectory(identity), now: () => clock.ms };
  const work = async () => {
    while ((await makeDigests(deps, "daily")) > 0);
  };
  await Promise.all([work(), work()]);
  const mailed = await pool.query("select address, count(*)::int as n from mails group by address");
  expect(mailed.rows.length).toBe(users.length);
  expect(new Set(mailed.rows.map(({ n }) => n))).toEqual(new Set([1]));
  const filled = await pool.query(
    "select digest_id, count(*)::int as n from notifications where digest_id is not null group by digest_id",
  );
  expect(filled.rows.length).toBe(users.length);
  expect(new Set(filled.rows.map(({ n }) => n))).toEqual(new Set([2]));
  const parts = await pool.query(
    "select count(*)::int as n from digests group by xmin::text order by n desc",
  );
  expect(parts.rows[0].n).toBe(500);
  await service.stop();
});
