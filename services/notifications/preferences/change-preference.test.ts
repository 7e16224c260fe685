import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { mailScene } from "../digests/testing.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";

let service: TestNotifications;
let scene: ReturnType<typeof mailScene>;
let greylisting = false;

beforeAll(async () => {
  service = await startNotifications({}, { refuse: () => (greylisting ? 451 : undefined) });
  scene = mailScene(service);
});
afterAll(() => service.stop());

test("switching a kind to immediate sends what is pending of it as one mail, and leaves other kinds pending", async () => {
  const { send, set, mailOf, settled, subjectsOf, toNext, quiet } = scene;
  const ada = service.user();
  await set(ada, "social.comment", "both", "daily");
  await set(ada, "member.joined", "email", "weekly");
  await send("social.comment", [ada], { title: "one" });
  await send("social.comment", [ada], { title: "two" });
  await send("member.joined", [ada], { title: "other" });
  await Promise.all([1, 2].map(() => set(ada, "social.comment", "both", "immediate")));
  await settled(ada, "one", "sent");
  await settled(ada, "two", "sent");
  expect(subjectsOf(ada)).toEqual(["Waiting notifications: 2 notifications"]);
  expect((await mailOf(ada, "other")).state).toBe("digest");
  toNext("weekly");
  await settled(ada, "other", "sent");
  await quiet();
  expect(subjectsOf(ada)).toHaveLength(2);
});

test("switching mail off drops what is pending of the kind; switching it on again does not restore it", async () => {
  const { send, set, mailOf, settled, mailsOf, toNext, quiet } = scene;
  const bob = service.user();
  await set(bob, "social.comment", "both", "daily");
  await send("social.comment", [bob], { title: "dropped" });
  await set(bob, "social.comment", "in_app", "daily");
  expect(await mailOf(bob, "dropped")).toMatchObject({ state: "dropped", reason: "switched_off" });
  await set(bob, "social.comment", "both", "daily");
  await send("social.comment", [bob], { title: "kept" });
  toNext("daily");
  await settled(bob, "kept", "sent");
  await quiet();
  expect(mailsOf(bob)).toHaveLength(1);
  expect(mailsOf(bob)[0]!.text).not.toContain("dropped");
});

test("from daily to weekly, what is pending is sent when it was due", async () => {
  const { send, set, settled, subjectsOf, toNext } = scene;
  const eve = service.user();
  await set(eve, "social.comment", "both", "daily");
  await send("social.comment", [eve], { title: "soon" });
  await set(eve, "social.comment", "both", "weekly");
  toNext("daily");
  await settled(eve, "soon", "sent");
  expect(subjectsOf(eve)).toEqual(["Your daily digest: 1 notification"]);
});

test("a mail that is tried again is not, once its kind is switched off; a forced one is", async () => {
  const { send, set, settled, mailsOf, quiet } = scene;
  const zoe = service.user();
  greylisting = true;
  await send("deploy.failed", [zoe], { title: "of no use" });
  await send("security.token_created", [zoe], { title: "forced" });
  for (const title of ["of no use", "forced"]) await settled(zoe, title, "retrying");
  await set(zoe, "deploy.failed", "off", "immediate");
  await set(zoe, "security.token_created", "off", "immediate");
  greylisting = false;
  await service.pool.query("update mails set due_at = now()");
  await quiet();
  expect(await settled(zoe, "of no use", "dropped")).toMatchObject({ reason: "switched_off" });
  await settled(zoe, "forced", "sent");
  expect(mailsOf(zoe)).toHaveLength(1);
});

test("what is notified while mail is switched off is not mailed, whichever commits first", async () => {
  const { send, set, mailsOf, toNext, quiet } = scene;
  const users = Array.from({ length: 10 }, () => service.user());
  for (const user of users) await set(user, "social.comment", "both", "daily");
  await Promise.all([
    send("social.comment", users),
    ...users.map((user) => set(user, "social.comment", "in_app", "daily")),
  ]);
  toNext("daily");
  await quiet();
  for (const user of users) expect(mailsOf(user)).toEqual([]);
});

test("21 mails within an hour: the last waits for the daily digest, forced ones never do", async () => {
  const { send, mailOf, mailsOf, subjectsOf, settled, toNext, quiet } = scene;
  const [ada, other] = [service.user(), service.user()];
  const titles = Array.from({ length: 30 }, (_, n) => `failure ${n}`);
  // A few at a time, as events are handled: sixty at once wait too long for a connection on a slow machine.
  for (const title of titles)
    await Promise.all([
      send("deploy.failed", [ada, other], { title }),
      send("security.token_created", [ada], { title: `forced ${title}` }),
    ]);
  await eventually(
    "the mails are gone",
    async () => mailsOf(ada).length === 50 && mailsOf(other).length === 20,
  );
  const states = await eventually("that is recorded", async () => {
    const all = await Promise.all(titles.map((title) => mailOf(ada, title)));
    return all.every(({ state }) => state === "sent" || state === "digest") && all;
  });
  expect(states.filter(({ state }) => state === "sent")).toHaveLength(20);
  const held = states.filter(({ state }) => state === "digest");
  expect(held.map(({ reason }) => reason)).toEqual(Array(10).fill("burst"));

  await send("deploy.failed", [ada], { title: "within the hour" });
  service.clock.ms += 3_600_000 + 1;
  await send("deploy.failed", [ada], { title: "an hour later" });
  await settled(ada, "an hour later", "sent");
  expect((await mailOf(ada, "within the hour")).state).toBe("digest");
  toNext("daily");
  await settled(ada, "within the hour", "sent");
  await quiet();
  expect(subjectsOf(ada).filter((subject) => subject!.includes("digest"))).toEqual([
    "Your daily digest: 11 notifications",
  ]);
});

test("an event that is delivered twice counts once against the limit", async () => {
  const { send, mailsOf } = scene;
  const ada = service.user();
  for (let n = 0; n < 20; n++) await send("deploy.failed", [ada], { dedupe: "same" });
  for (let n = 0; n < 19; n++) await send("deploy.failed", [ada]);
  await eventually("all 20 are mailed", async () => mailsOf(ada).length === 20);
});
