import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveOf as tarOf } from "../../../services/deployer/testing/testing.ts";
import { type Mailbox, startMailbox } from "../../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../../support/apps.ts";
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

type Notification = {
  id: string;
  kind: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
};
type Feed = { data: Notification[] };

test("a deployment that fails is in the feed and in the mail, with the reason; one that is live in the feed", async () => {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const scripts = { build: "exit 3", start: "node app.js" };
  const source = await tarOf({ "package.json": JSON.stringify({ name: "app", scripts }), "app.js": "" });
  await deployArchive(world, S("web"), source);
  const failed = await eventually("it is told", async () => {
    const { data } = await world.must<Feed>("GET", "/notifications?unread=true");
    return data.find(({ kind }) => kind === "deploy.failed");
  });
  expect(failed.title).toBe("Deployment 1 of web failed in build");
  const mail = await eventually("it is mailed", async () =>
    box.for("owner@example.com").find(({ text }) => text.includes("web in ")),
  );
  expect(mail.headers.get("subject")).toBe(failed.title);

  await deployArchive(world, S("web"), await archiveOf("node"));
  await settled(world, S("web"), 2);
  const live = await eventually("it is told", async () => {
    const { data } = await world.must<Feed>("GET", "/notifications?unread=true");
    return data.find(({ kind }) => kind === "deploy.ready");
  });
  expect(live).toMatchObject({
    title: "web is live with version 2",
    metadata: { service: "web", version: "2" },
  });
  expect(box.for("owner@example.com").filter(({ text }) => text.includes("web in "))).toHaveLength(1);

  const { count } = await world.must<{ count: number }>("GET", "/notifications/unread-count");
  const read = await world.must<{ readAt: string }>("POST", `/notifications/${live.id}/read`);
  expect(read.readAt).toBeDefined();
  expect(await world.must("GET", "/notifications/unread-count")).toEqual({ count: count - 1 });
  expect(await world.must("POST", "/notifications/read-all")).toEqual({ count: 0 });
  expect(await world.must("GET", `/notifications/${failed.id}/decisions`)).toMatchObject({
    kind: "deploy.failed",
    recipients: "editors and owners of the account",
    inApp: true,
    mail: { state: "sent", attempts: 1 },
  });
});
