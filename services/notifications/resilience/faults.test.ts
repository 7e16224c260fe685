import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  DeploymentFailedSchema,
  ReleaseHealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { MemberAddedSchema, TokenCreatedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { openProxy } from "../../kit/testing/proxy.ts";
import { sampleSize } from "../../kit/testing/sample.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";

let berth: TestNotifications;

/** Longer than ten tries take with the first pauses of a consumer, after which an event would be given up. */
const OUTAGE_MS = 8_000;

afterAll(() => berth?.stop());

/** An account with editors, and a service in it. */
function createAccount(editors = 1) {
  const users = Array.from({ length: editors }, () => berth.user());
  const accountId = berth.account(...users.map((user) => [user, "editor"] as [typeof user, "editor"]));
  const serviceId = berth.service(accountId);
  const live = (version: number, eventId?: string) =>
    berth.publish("deployer", ReleaseHealthySchema, accountId, { accountId, serviceId, version }, eventId);
  const failed = (version: number) =>
    berth.publish("deployer", DeploymentFailedSchema, accountId, { accountId, serviceId, version });
  return { users, accountId, serviceId, live, failed };
}

/** Returns the versions of the notifications that a user received, of a kind. */
async function listVersions(userId: string, kind = "deploy.ready"): Promise<number[]> {
  const { rows } = await berth.pool.query<{ version: number }>(
    `select (metadata->>'version')::int as version from notifications where user_id = $1 and kind = $2 order by 1`,
    [userId, kind],
  );
  return rows.map(({ version }) => version);
}

/** Waits until a user was notified of versions 1 to `count`, and asserts that of each once. */
async function everyVersionOnce(userId: string, count: number, kind?: string): Promise<void> {
  const enough = async () => (await listVersions(userId, kind)).length >= count;
  await eventually(`${count} are notified`, enough, 180_000);
  expect(await listVersions(userId, kind)).toEqual(Array.from({ length: count }, (_, n) => n + 1));
  expect(await berth.deadLetters()).toBe(0);
}

describe("one process", () => {
  beforeAll(async () => {
    berth = await startNotifications();
  });
  afterAll(() => berth.stopOwn());

  test("an event that is delivered again, and another about the same fact, yield one notice", async () => {
    const { users, live } = createAccount();
    const eventId = newId("evt");
    for (const id of [eventId, eventId, newId("evt")]) await live(1, id);
    await live(2);
    await everyVersionOnce(users[0]!.userId, 2);
    const { rows } = await berth.pool.query("select from inbox where event_id = $1", [eventId]);
    expect(rows).toHaveLength(1);
  });

  test("recipients are looked up when an event arrives, however soon after another", async () => {
    const { users, accountId, live } = createAccount(2);
    const [stays, leaves] = users.map(({ userId }) => userId) as [string, string];
    const comes = berth.user().userId;
    const { roles } = berth.neighbours.accounts.get(accountId)!;
    for (let version = 1; version <= 3; version++) {
      await live(version);
      await everyVersionOnce(stays, version);
      if (version === 1) roles.delete(leaves);
      if (version === 2) roles.set(comes, "editor");
    }
    expect([await listVersions(leaves), await listVersions(comes)]).toEqual([[1], [3]]);
  });

  test("identity and the deployer are away while events arrive: none is lost or given up, each yields one notice", async () => {
    const { users, live, accountId } = createAccount();
    const { userId } = users[0]!;
    berth.neighbours.proxy.shut();
    for (let version = 1; version <= 25; version++) await live(version);
    const tokenId = newId("tok");
    const created = { userId, tokenId, name: "laptop", accountId };
    await berth.publish("identity", TokenCreatedSchema, accountId, created);
    await delay(OUTAGE_MS);
    expect(await listVersions(userId)).toEqual([]);
    await berth.neighbours.proxy.open();
    await everyVersionOnce(userId, 25);
    await eventually("the token is notified", async () => {
      const { data } = await berth.as(userId).listNotifications({ limit: 100 });
      return data.some(({ metadata }) => metadata.tokenId === tokenId);
    });
  });

  const members = sampleSize("members of an account that is notified", 10_000, 2_000);
  test(`${members} members of an account are notified once each, and mailed as they chose`, async () => {
    const { users, accountId, failed } = createAccount(members);
    const silent = users[0]!.userId;
    await berth
      .as(silent)
      .setNotificationPref({ kind: "deploy.failed", channel: "off", frequency: "immediate" });
    const follower = berth.as(users[1]!.userId).followNotifications({})[Symbol.asyncIterator]();
    await follower.next();
    await failed(1);
    await failed(2);
    const received = await eventually("all are notified", async () => {
      const { rows } = await berth.pool.query<{ users: number; rows: number; silent: number }>(
        `select count(distinct user_id)::int as users, count(*)::int as rows,
           count(*) filter (where user_id = $2)::int as silent from notifications where account_id = $1`,
        [accountId, silent],
      );
      return rows[0]!.rows >= 2 * (members - 1) && rows[0];
    });
    expect(received).toEqual({ users: members - 1, rows: 2 * (members - 1), silent: 0 });
    const { value } = await follower.next();
    expect(value.event.case).toBe("notification");
    expect(await berth.deadLetters()).toBe(0);
    await berth.pool.query("delete from mails");
  });

  const many = sampleSize("deployments before what is forced", 10_000, 1_000);
  test(`${many} deployments do not delay what is forced: it is notified before them`, async () => {
    const { users, accountId, live } = createAccount();
    const { userId } = users[0]!;
    const storm = Array.from({ length: many }, (_, n) => live(n + 1));
    await Promise.all(storm.slice(0, many / 2));
    const created = { userId, tokenId: newId("tok"), name: "laptop", accountId };
    await berth.publish("identity", TokenCreatedSchema, accountId, created);
    await Promise.all(storm);
    await everyVersionOnce(userId, many);
    const { rows } = await berth.pool.query<{ after: number }>(
      `select count(*)::int as after from notifications n where n.user_id = $1 and n.created_at >
         (select created_at from notifications where user_id = $1 and kind = 'security.token_created')`,
      [userId],
    );
    expect(rows[0]!.after).toBeGreaterThan(0);
  }, 180_000);
});

describe("several processes", () => {
  test("two consume and one of them is killed: each event yields one notice", async () => {
    const { users, live, failed, accountId } = createAccount(3);
    const one = await berth.process();
    const other = await berth.process();
    const { userId } = users[0]!;
    for (let version = 1; version <= 200; version++) {
      await live(version);
      await failed(version);
      await berth.publish("identity", MemberAddedSchema, accountId, { accountId, userId, role: "editor" });
      if (version === 100) {
        await eventually("some are notified", async () => (await listVersions(userId)).length > 0);
        await one.end("SIGKILL");
      }
    }
    for (const user of users) {
      await everyVersionOnce(user.userId, 200);
      await everyVersionOnce(user.userId, 200, "deploy.failed");
    }
    await other.end("SIGTERM");
  });

  test.each(["kept", "lost"] as const)(
    "killed at the commit, which is %s: notified once, mailed once",
    async (outcome) => {
      const { users, failed } = createAccount();
      const { userId, email } = users[0]!;
      const process = await berth.process();
      const held = await holdCommits(berth, "insert", "notifications", `new.user_id = '${userId}'`);
      await failed(1);
      await held.reached();
      await process.end("SIGKILL");
      await held.release(outcome);
      const next = await berth.process();
      await failed(2);
      await everyVersionOnce(userId, 2, "deploy.failed");
      await eventually("both are mailed", async () => berth.box.for(email).length >= 2);
      await next.end("SIGTERM");
      expect(berth.box.for(email)).toHaveLength(2);
    },
  );

  test("the database is away while events arrive: none is lost or given up, each yields one notice", async () => {
    const { users, live } = createAccount();
    const { userId } = users[0]!;
    const proxy = await openProxy(new URL(berth.env.DATABASE_URL!));
    const process = await berth.process({ DATABASE_URL: proxy.of(berth.env.DATABASE_URL!) });
    await live(1);
    await everyVersionOnce(userId, 1);
    proxy.shut();
    for (let version = 2; version <= 25; version++) await live(version);
    await delay(OUTAGE_MS);
    expect(await berth.deadLetters()).toBe(0);
    await proxy.open();
    await everyVersionOnce(userId, 25);
    await process.end("SIGTERM");
    proxy.shut();
  });
});
