import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { UnsubscribeService } from "../../../proto/gen/berth/notifications/v1/unsubscribing_pb.ts";
import { queueMail } from "../../kit/mail/mail.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { clientAs, eventually } from "../../kit/testing/testing.ts";
import { mailScene } from "../digests/testing.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Notice } from "../notices/notify.ts";
import type { Recipient } from "../recipients/directory.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { createUnsubscribeLinks } from "./unsubscribe-links.ts";

let service: TestNotifications;
let scene: ReturnType<typeof mailScene>;
const bad = new Set<string>();

beforeAll(async () => {
  service = await startNotifications({}, { refuse: (to) => (bad.has(to) ? 550 : undefined) });
  scene = mailScene(service);
});
afterAll(() => service.stop());

const set = (user: Recipient, kind: KindKey, channel: string, frequency = "immediate") =>
  scene.set(user, kind, channel, frequency);

let count = 0;
/** Tells users something, and returns its title. */
async function send(kind: KindKey, recipients: Recipient[], more: Partial<Notice> = {}): Promise<string> {
  const title = more.title ?? `Title ${++count}`;
  await scene.send(kind, recipients, { ...more, title });
  return title;
}

const mailTo = ({ email }: Recipient, nth = 1) =>
  eventually(`mail ${nth} to ${email}`, async () => service.box.for(email)[nth - 1]);

const feedOf = async ({ userId }: Recipient) =>
  (await service.as(userId).listNotifications({})).data.map(({ title }) => title);

const visitor = () =>
  clientAs(UnsubscribeService, service.port, { kind: "anonymous", id: "", ip: "203.0.113.7" });

/** The token of the link that ends such mails. */
const tokenOf = (mail: { headers: Map<string, string> }) =>
  /^<https:\/\/berth\.example\.com\/u\/([\w.-]+)>$/.exec(mail.headers.get("list-unsubscribe")!)![1]!;

describe("a mail", () => {
  test("is text and HTML, says why it came, and one click ends such mails", async () => {
    const ada = service.user();
    const account = service.account([ada, "editor"]);
    const title = `Deployment of <b>web</b> failed ${randomBytes(4).toString("hex")}`;
    const metadata = { projectId: "prj_1", environmentId: "env_1", service: "web", version: "2" };
    await send("deploy.failed", [ada], { accountId: account, title, metadata });
    const mail = await mailTo(ada);
    expect(mail.headers.get("content-type")).toMatch(/^multipart\/alternative/);
    expect(mail.headers.get("auto-submitted")).toBe("auto-generated");
    expect(mail.headers.get("message-id")).toMatch(/^<mail_\w{26}@mail\.example\.com>$/);
    expect(mail.headers.get("list-unsubscribe-post")).toBe("List-Unsubscribe=One-Click");
    expect(mail.html).toContain("Deployment of &lt;b&gt;web&lt;/b&gt; failed");
    for (const part of [mail.text, mail.html])
      for (const said of [
        "editors and owners of the account",
        `https://berth.example.com/console/accounts/${account}/projects/prj_1/environments/env_1/services/web/deployments/2`,
        `https://berth.example.com/u/${tokenOf(mail)}`,
        "https://berth.example.com/console/me/notification-prefs",
      ])
        expect(part).toContain(said);
  });

  test("that is forced cannot be ended, and says where to choose", async () => {
    const ada = service.user();
    await set(ada, "security.token_created", "off");
    await send("security.token_created", [ada], { title: "API token created" });
    const mail = await mailTo(ada);
    expect(mail.headers.has("list-unsubscribe")).toBe(false);
    expect(mail.text).not.toContain("/u/");
    expect(mail.text).toContain("Mails of this kind are always sent.");
    expect(mail.text).toContain("https://berth.example.com/console/me/notification-prefs");
    expect(await feedOf(ada)).toEqual([]);
  });

  test("does not go to who lost access or is gone by then, unless it is about the user alone", async () => {
    const [ada, bob] = [service.user(), service.user()];
    const account = service.account([bob, "editor"]);
    const accountId = account;
    const lost = await send("deploy.failed", [ada], { accountId });
    expect((await scene.settled(ada, lost, "dropped")).reason).toBe("no_access");
    service.neighbours.users.delete(bob.userId);
    const gone = await send("deploy.failed", [bob], { accountId });
    expect((await scene.settled(bob, gone, "dropped")).reason).toBe("user_gone");
    await send("member.removed", [ada], { accountId });
    await send("security.password_changed", [bob]);
    await Promise.all([mailTo(ada), mailTo(bob)]);
    expect(service.box.for(ada.email)).toHaveLength(1);
    expect(service.box.for(bob.email)).toHaveLength(1);
  });

  test("of a digest leaves out the accounts to which its user lost access", async () => {
    const ada = service.user();
    const accountId = service.account([ada, "reader"]);
    await set(ada, "social.comment", "both", "daily");
    const lost = await send("social.comment", [ada], { accountId });
    const kept = await send("social.comment", [ada]);
    service.neighbours.accounts.get(accountId)!.roles.clear();
    scene.toNext("daily");
    const { text } = await mailTo(ada);
    expect([text.includes(kept), text.includes(lost)]).toEqual([true, false]);
    expect((await scene.settled(ada, lost, "dropped")).reason).toBe("no_access");
  });

  test("of an unknown kind is tried again, and the log names the kind and no address", async () => {
    await queueMail(service.pool, {
      kind: "telegram",
      address: "someone@example.com",
      data: {},
      queue: "bulk",
    });
    await eventually("it is put off", async () => {
      const text =
        "select 1 from mails where kind = 'telegram' and tries = 1 and due_at < now() + interval '1 minute'";
      return (await service.pool.query(text)).rowCount === 1;
    });
    const lines = service.logLines.filter((line) => line.includes("telegram"));
    expect(lines.join()).toContain("not_composed");
    expect(service.logLines.join()).not.toContain("someone@example.com");
    await service.pool.query("delete from mails where kind = 'telegram'");
  });
});

describe("an address that the server refuses for good", () => {
  test("is not mailed for 7 days, and what is forced is shown in the feed instead", async () => {
    const ada = service.user();
    bad.add(ada.email);
    await set(ada, "security.token_created", "off");
    const first = await send("security.token_created", [ada]);
    expect(await scene.settled(ada, first, "failed")).toMatchObject({ attempts: 1, reason: "550" });
    const second = await send("security.token_created", [ada]);
    expect(await scene.settled(ada, second, "dropped")).toMatchObject({ reason: "suppressed" });
    expect(await feedOf(ada)).toEqual([second, first]);
    expect(await service.as(ada.userId).countUnread({})).toMatchObject({ count: 2 });
    await set(ada, "social.mention", "email");
    const third = await send("social.mention", [ada]);
    expect(await scene.settled(ada, third, "dropped")).toMatchObject({ reason: "suppressed" });
    expect(await feedOf(ada)).not.toContain(third);
    expect(service.box.tries(ada.email)).toBe(1);
    bad.delete(ada.email);
    await service.pool.query("update suppressions set until = until - interval '7 days'");
    await send("security.token_created", [ada]);
    await mailTo(ada);
  });

  test("as one to which nothing may be sent, shows what is forced", async () => {
    const ada = service.user({ emailVerified: false });
    await set(ada, "security.token_created", "off");
    const title = await send("security.token_created", [ada]);
    expect(await feedOf(ada)).toEqual([title]);
  });
});

describe("a link that ends mails", () => {
  test("of a kind: reading it changes nothing, using it does, once", async () => {
    const ada = service.user();
    await send("social.mention", [ada]);
    const token = tokenOf(await mailTo(ada));
    const read = await visitor().getUnsubscription({ token });
    expect(read).toMatchObject({ of: "social.mention", preferences: [{ channel: "both" }] });
    expect(await visitor().getUnsubscription({ token })).toEqual(read);
    const ended = await visitor().unsubscribe({ token });
    expect(ended.preferences).toMatchObject([
      { kind: "social.mention", channel: "in_app", overridden: true },
    ]);
    expect((await visitor().unsubscribe({ token })).preferences).toEqual([]);
    expect((await visitor().getUnsubscription({ token })).preferences).toEqual([]);
    const title = await send("social.mention", [ada]);
    expect((await scene.mailOf(ada, title)).state).toBe("none");
    expect(await feedOf(ada)).toContain(title);
  });

  test("turns mail alone into nothing, and ends what is on its way", async () => {
    const ada = service.user();
    await set(ada, "social.mention", "email");
    await send("social.mention", [ada]);
    const token = tokenOf(await mailTo(ada));
    await visitor().unsubscribe({ token });
    const prefs = (await service.as(ada.userId).listNotificationPrefs({})).data;
    expect(prefs.find(({ kind }) => kind === "social.mention")).toMatchObject({ channel: "off" });
  });

  test("of a digest ends the mails of all kinds that it brings, and of no other", async () => {
    const ada = service.user();
    await set(ada, "social.comment", "both", "daily");
    await set(ada, "social.mention", "email", "daily");
    await set(ada, "social.announcement", "both", "weekly");
    await set(ada, "security.token_created", "both", "daily");
    await send("social.comment", [ada], { title: "A comment" });
    scene.toNext("daily");
    const mail = await mailTo(ada);
    expect(mail.headers.get("subject")).toBe("Your daily digest: 1 notification");
    expect(mail.html).toContain("A comment");
    const { of, preferences } = await visitor().unsubscribe({ token: tokenOf(mail) });
    expect(of).toBe("daily");
    expect(preferences.map(({ kind, channel }) => [kind, channel])).toEqual([
      ["social.mention", "off"],
      ["social.comment", "in_app"],
    ]);
  });

  test("works under an older key, and not when a letter of it is changed", async () => {
    const [old, next] = [randomBytes(32), randomBytes(32)];
    const subscription = { userId: "usr_1", of: "deploy.failed" as const };
    const token = createUnsubscribeLinks([old], "https://x").make(subscription).split("/u/")[1]!;
    const links = createUnsubscribeLinks([next, old], "https://x");
    expect(links.read(token)).toEqual(subscription);
    expect(createUnsubscribeLinks([next], "https://x").read(token)).toBeUndefined();
    for (let at = 0; at < token.length; at++) {
      const changed = token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
      // The last letter before the dot has bits that mean nothing.
      if (at !== token.indexOf(".") - 1) expect([at, links.read(changed)]).toEqual([at, undefined]);
    }
    for (const broken of ["", ".", "x", `${token}.x`.slice(0, 20), "ä.ö"])
      expect(await refused(visitor().unsubscribe({ token: broken }))).toMatch(/^404 not_found/);
  });
});
