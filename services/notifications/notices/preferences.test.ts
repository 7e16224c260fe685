import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { mailScene } from "../digests/testing.ts";
import { type Channel, type Frequency, type KindKey, kindKeys } from "../kinds/kinds.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";

let service: TestNotifications;
let scene: ReturnType<typeof mailScene>;

beforeAll(async () => {
  service = await startNotifications();
  scene = mailScene(service);
});
afterAll(() => service.stop());

const channels: Channel[] = ["in_app", "email", "both", "off"];
const frequencies: Frequency[] = ["immediate", "daily", "weekly"];
const combinations = channels.flatMap((channel) => frequencies.map((frequency) => ({ channel, frequency })));

/** Returns what the interface promises for a preference as GET shows it. */
function promised({
  channel,
  frequency,
  forceEmail,
}: {
  channel: string;
  frequency: string;
  forceEmail: boolean;
}) {
  const inApp = channel === "in_app" || channel === "both";
  const mailed = channel === "email" || channel === "both";
  const state = forceEmail || (mailed && frequency === "immediate") ? "sent" : mailed ? "digest" : "none";
  return { inApp, state, row: inApp || state !== "none" };
}

/** As many kinds as a user may get mails of within an hour, and the next ones, for another user. */
const portions = Array.from({ length: Math.ceil(kindKeys.length / 20) }, (_, n) =>
  kindKeys.slice(n * 20, n * 20 + 20),
);

test.each([undefined, ...combinations])(
  "what GET says of every kind is what delivery does, when %o is chosen",
  async (choice) => {
    for (const kinds of portions) await promisesKept(kinds, choice);
  },
);

async function promisesKept(kinds: KindKey[], choice: (typeof combinations)[number] | undefined) {
  const { send, set, decisionOf, settled, mailsOf, quiet } = scene;
  const user = service.user();
  const client = service.as(user.userId);
  for (const kind of choice ? kinds : []) {
    const answer = await set(user, kind, choice!.channel, choice!.frequency);
    expect(answer).toMatchObject({ kind, ...choice, overridden: true });
  }
  const { data: preferences } = await client.listNotificationPrefs({});
  expect(preferences.map(({ kind }) => kind)).toEqual(kindKeys);
  for (const kind of kinds) await send(kind, [user], { title: kind });
  await quiet();
  const { data: feed } = await client.listNotifications({ limit: 100 });
  const inFeed = new Set(feed.map(({ kind }) => kind));
  let mails = 0;
  for (const preference of preferences.filter(({ kind }) => kinds.some((one) => one === kind))) {
    const { kind, channel, frequency, forceEmail, overridden } = preference;
    const { inApp, state, row } = promised(preference);
    expect(inFeed.has(kind), `${kind} in the feed`).toBe(inApp);
    if (!row) {
      await expect(decisionOf(user, kind), kind).rejects.toThrow();
      continue;
    }
    const decision = await decisionOf(user, kind);
    expect(decision, kind).toMatchObject({ kind, channel, frequency, forceEmail, overridden, inApp });
    expect((await settled(user, kind, state)).state).toBe(state);
    mails += state === "sent" ? 1 : 0;
  }
  expect(mailsOf(user)).toHaveLength(mails);
}

test("what a preference cannot be is refused, and changes nothing", async () => {
  const user = service.user();
  const client = service.as(user.userId);
  const good = { kind: "deploy.ready", channel: "both", frequency: "daily" };
  const answers = [];
  for (const bad of [
    { kind: "deploy.unknown" },
    { kind: "toString" },
    { channel: "sms" },
    { frequency: "hourly" },
    { kind: "" },
    { channel: "" },
    { frequency: "" },
  ])
    answers.push(await refused(client.setNotificationPref({ ...good, ...bad })));
  expect(answers).toEqual([
    "422 validation_failed unknown_kind",
    "422 validation_failed unknown_kind",
    "422 validation_failed invalid_choice",
    "422 validation_failed invalid_choice",
    "422 validation_failed required",
    "422 validation_failed required",
    "422 validation_failed required",
  ]);
  const { data } = await client.listNotificationPrefs({});
  expect(data.every(({ overridden }) => !overridden)).toBe(true);
});
