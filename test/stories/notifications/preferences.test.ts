import { afterAll, beforeAll, expect, test } from "vitest";
import { type Mailbox, startMailbox } from "../../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { refusal } from "../../support/door.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let box: Mailbox;

beforeAll(async () => {
  box = await startMailbox();
  world = await startWorld({ SMTP_URL: box.url, MAIL_FROM: "Berth <berth@example.com>" });
});
afterAll(async () => {
  await world.stop();
  await box.stop();
});

const PREFS = "/me/notification-prefs";
type Decisions = { inApp: boolean; mail: { state: string; reason?: string } };

const prefer = (kind: string, channel: string, frequency: string) =>
  world.must("PUT", PREFS, { kind, channel, frequency });
const subjects = () => box.for("owner@example.com").map(({ headers }) => headers.get("subject"));

/** Invites somebody by mail, who joins by its link. */
async function join(email: string) {
  await world.must("POST", `${world.A}/members`, { email, role: "editor" });
  const { text } = await eventually("the invitation arrives", async () => box.for(email)[0]);
  const token = /#(\S+)/.exec(text)![1];
  await world.must("POST", "/invitations/join", { token, password: "a-long-first-password" });
}

/** Returns the newest of a kind in the feed, once it tells of `name`. */
const told = (kind: string, name: string) =>
  eventually(`${kind} of ${name}`, async () => {
    const { data } = await world.must<{ data: { id: string; kind: string; title: string }[] }>(
      "GET",
      "/notifications",
    );
    return data.find((one) => one.kind === kind && one.title.includes(name));
  });
const decisionsOf = ({ id }: { id: string }) =>
  world.must<Decisions>("GET", `/notifications/${id}/decisions`);

test("what waits for a digest waits, comes at once when the user asks for that, and is dropped when mail is off", async () => {
  expect(await prefer("member.joined", "both", "daily")).toMatchObject({
    kind: "member.joined",
    channel: "both",
    frequency: "daily",
    overridden: true,
    forceEmail: false,
  });
  await join("ada@example.com");
  const ada = await told("member.joined", "ada");
  expect(await decisionsOf(ada)).toMatchObject({ inApp: true, mail: { state: "digest" } });
  await prefer("member.joined", "both", "immediate");
  await eventually("it is mailed", async () => (await decisionsOf(ada)).mail.state === "sent");
  expect(subjects().filter((subject) => subject?.startsWith("Waiting notifications"))).toHaveLength(1);
  expect(box.for("owner@example.com").at(-1)!.text).toContain(ada.title);

  await prefer("member.joined", "both", "weekly");
  await join("bob@example.com");
  const bob = await told("member.joined", "bob");
  await prefer("member.joined", "in_app", "weekly");
  expect(await decisionsOf(bob)).toMatchObject({ mail: { state: "dropped", reason: "switched_off" } });
});

test("a forced kind that is off is stored as off, mailed all the same, and not in the feed", async () => {
  expect(await prefer("security.token_created", "off", "weekly")).toMatchObject({
    channel: "off",
    overridden: true,
    forceEmail: true,
  });
  await world.must("POST", "/me/tokens", { name: "robot" });
  await eventually("it is mailed", async () => subjects().some((subject) => subject?.includes("robot")));
  const { data } = await world.must<{ data: { title: string }[] }>("GET", "/notifications");
  expect(data.filter(({ title }) => title.includes("robot"))).toEqual([]);
});

test("a preference that cannot be is refused, with what is wrong", async () => {
  const good = { kind: "deploy.ready", channel: "both", frequency: "daily" };
  const put = async (body: object) => refusal(await world.call("PUT", PREFS, body));
  expect(await put({ ...good, kind: "deploy.unknown" })).toBe("422 unknown_kind");
  expect(await put({ ...good, channel: "sms" })).toBe("422 invalid_choice");
  expect(await put({ ...good, frequency: "hourly" })).toBe("422 invalid_choice");
  expect(await put({})).toBe("422 required required required");
});
