import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveOf as tarOf } from "../../../services/deployer/testing/testing.ts";
import type { Mailbox } from "../../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { archiveOf, deployArchive, settled } from "../../support/apps.ts";
import { openMailedPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
let box: Mailbox;

beforeAll(async () => {
  ({ platform: world, box } = await openMailedPlatform());
});
afterAll(async () => {
  await world.stop();
  await box.stop();
});

type Notification = { id: string; kind: string; title: string; metadata: Record<string, string> };

test("a deployment that fails is in the feed and in the mail, with the reason; one that is live in the feed", async () => {
  const { E, S, name } = await world.environment();
  const unread = async (kind: string) => {
    const { data } = await world.must<{ data: Notification[] }>(
      "GET",
      "/notifications?unread=true&limit=100",
    );
    return data.find((one) => one.kind === kind && one.metadata.project === name);
  };
  const mails = () => box.for("owner@example.com").filter(({ text }) => text.includes(name));

  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const scripts = { build: "exit 3", start: "node app.js" };
  const source = await tarOf({ "package.json": JSON.stringify({ name: "app", scripts }), "app.js": "" });
  await deployArchive(world, S("web"), source);
  const failed = await eventually("the failure is in the feed", () => unread("deploy.failed"));
  expect(failed.title).toMatch(/^Deployment 1 of web failed in build: .* ended with exit code 3/);
  const mail = await eventually("it is mailed", async () => mails()[0]);
  expect(mail.headers.get("subject")).toBe(failed.title);

  await deployArchive(world, S("web"), await archiveOf("node"));
  await settled(world, S("web"), 2);
  const live = await eventually("what is live is in the feed", () => unread("deploy.ready"));
  expect(live).toMatchObject({
    title: "web is live with version 2",
    metadata: { service: "web", version: "2" },
  });
  expect(mails()).toHaveLength(1);

  const read = await world.must<{ readAt: string }>("POST", `/notifications/${live.id}/read`);
  expect(read.readAt).toBeDefined();
  expect(await unread("deploy.ready")).toBeUndefined();
  expect(await unread("deploy.failed")).toBeDefined();
  await world.must("POST", "/notifications/read-all");
  expect(await unread("deploy.failed")).toBeUndefined();
  expect(await world.must("GET", `/notifications/${failed.id}/decisions`)).toMatchObject({
    kind: "deploy.failed",
    recipients: "editors and owners of the account",
    inApp: true,
    mail: { state: "sent", attempts: 1 },
  });
});
