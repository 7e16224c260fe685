import { afterAll, beforeAll, expect, test } from "vitest";
import type { KindKey } from "../kinds/kinds.ts";
import type { Recipient } from "../recipients/directory.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { mailScene } from "./testing.ts";

let service: TestNotifications;
let scene: ReturnType<typeof mailScene>;

beforeAll(async () => {
  service = await startNotifications();
  scene = mailScene(service);
});
afterAll(() => service.stop());

/** Returns the text of the one digest that a user gets of what waits. */
async function digestOf(user: Recipient): Promise<string> {
  scene.toNext("daily");
  await scene.quiet();
  expect(scene.mailsOf(user)).toHaveLength(1);
  return scene.mailsOf(user)[0]!.text.replaceAll("\r\n", "\n");
}

test("a digest is grouped by account, project and kind, and shows the newest of repeated items of a service with a count", async () => {
  const { send, set } = scene;
  const ada = service.user();
  for (const kind of ["deploy.failed", "deploy.superseded", "social.comment"] as KindKey[])
    await set(ada, kind, "both", "daily");
  const [one, two] = [service.account([ada, "owner"]), service.account([ada, "owner"])];
  const handle = (id: string) => service.neighbours.accounts.get(id)!.handle;
  const about = (accountId: string, project: string, title: string) => ({
    accountId,
    title,
    metadata: { projectId: `prj_${project}`, project, serviceId: `svc_${project}`, service: "web" },
  });
  await send("deploy.failed", [ada], about(two, "blog", "Blog failed"));
  for (const n of [1, 2, 3]) await send("deploy.failed", [ada], about(one, "shop", `Deployment ${n} failed`));
  await send("deploy.superseded", [ada], about(one, "shop", "Deployment 4 was superseded"));
  await send("social.comment", [ada], about(one, "shop", "A comment"));
  await send("social.comment", [ada], about(one, "shop", "Another comment"));
  const lines = (await digestOf(ada)).split("\n").filter((line) => /^\S/.test(line));
  expect(lines.slice(0, 9)).toEqual([
    `${handle(one)} / shop / Deployment failed`,
    "- Deployment 3 failed (3 times)",
    `${handle(one)} / shop / Deployment superseded`,
    "- Deployment 4 was superseded",
    `${handle(one)} / shop / New comment`,
    "- Another comment",
    "- A comment",
    `${handle(two)} / blog / Deployment failed`,
    "- Blog failed",
  ]);
});

test("a digest shows 50 items, the newest, and says how many more there are", async () => {
  const { send, set, subjectsOf } = scene;
  const bob = service.user();
  await set(bob, "social.comment", "both", "daily");
  for (let n = 1; n <= 53; n++) await send("social.comment", [bob], { title: `comment ${n}.` });
  const text = await digestOf(bob);
  expect(text.match(/- comment \d+\./g)).toHaveLength(50);
  expect(text).toContain("And 3 more.");
  expect(text).not.toContain("comment 3.");
  expect(text).toContain("comment 4.");
  expect(subjectsOf(bob)).toEqual(["Your daily digest: 53 notifications"]);
});

test("a digest shows what a newer version notified of, with what this one knows", async () => {
  const { send, set, decisionOf } = scene;
  const eve = service.user();
  await set(eve, "social.comment", "both", "daily");
  await send("social.comment", [eve], { title: "A comment" });
  await send("social.comment", [eve], { title: "A spelling changed" });
  const newer = "update notifications set kind = 'zoo.spelling' where user_id = $1 and title = $2";
  await service.pool.query(newer, [eve.userId, "A spelling changed"]);
  expect(await decisionOf(eve, "A spelling changed")).toMatchObject({
    kind: "zoo.spelling",
    channel: "both",
    forceEmail: false,
    mail: { state: "digest" },
  });
  const { data } = await service.as(eve.userId).listNotifications({ limit: 10 });
  expect(data.map(({ kind }) => kind)).toEqual(["zoo.spelling", "social.comment"]);
  const lines = (await digestOf(eve)).split("\n").filter((line) => /^\S/.test(line));
  expect(lines.slice(0, 4)).toEqual([
    "Your account / New comment",
    "- A comment",
    "Your account / zoo.spelling",
    "- A spelling changed",
  ]);
});
