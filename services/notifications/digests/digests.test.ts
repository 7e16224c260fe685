import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  DeploymentFailedSchema,
  ReleaseHealthySchema,
  ReleaseRecoveredSchema,
  ReleaseUnhealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { KindKey } from "../kinds/kinds.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { mailScene } from "./testing.ts";
import { windowAt } from "./windows.ts";

let service: TestNotifications;
let scene: ReturnType<typeof mailScene>;

beforeAll(async () => {
  service = await startNotifications();
  scene = mailScene(service);
});
afterAll(() => service.stop());

/** A user who receives `kind` in the app and by a daily digest. */
async function reader(kind: KindKey = "social.comment") {
  const user = service.user();
  await scene.set(user, kind, "both", "daily");
  return user;
}

test("pending notifications are sent at 08:00 in one mail, although two processes make digests", async () => {
  const { send, mailOf, settled, subjectsOf, mailsOf, toNext, quiet } = scene;
  const other = await service.startOne();
  const ada = await reader();
  await send("social.comment", [ada], { title: "first" });
  await send("social.comment", [ada], { title: "second" });
  expect(await mailOf(ada, "first")).toMatchObject({ state: "digest", attempts: 0 });
  service.clock.ms = windowAt("daily", service.clock.ms).next - 1;
  expect((await mailOf(ada, "first")).state).toBe("digest");
  toNext("daily");
  await settled(ada, "first", "sent");
  await send("social.comment", [ada], { title: "third" });
  await quiet();
  expect(subjectsOf(ada)).toEqual(["Your daily digest: 2 notifications"]);
  expect(await mailOf(ada, "second")).toMatchObject({ state: "sent", attempts: 1 });
  expect((await mailOf(ada, "third")).state).toBe("digest");
  toNext("daily");
  await settled(ada, "third", "sent");
  toNext("daily");
  await quiet();
  expect(mailsOf(ada)).toHaveLength(2);
  await other.stop();
});

test("the weekly digest comes on Monday, apart from the daily one", async () => {
  const { send, settled, subjectsOf, quiet } = scene;
  const bob = await reader();
  await send("social.announcement", [bob], { title: "news" });
  const monday = windowAt("weekly", service.clock.ms).next;
  service.clock.ms = monday - 24 * 3_600_000;
  await send("social.comment", [bob], { title: "comment" });
  await quiet();
  expect(subjectsOf(bob)).toEqual([]);
  service.clock.ms = monday;
  await settled(bob, "news", "sent");
  await settled(bob, "comment", "sent");
  expect(subjectsOf(bob).sort()).toEqual([
    "Your daily digest: 1 notification",
    "Your weekly digest: 1 notification",
  ]);
});

test("what was read is left out, and when nothing is left there is no mail", async () => {
  const { send, settled, mailsOf, mailOf, toNext, quiet } = scene;
  const [some, all] = [await reader(), await reader()];
  await send("social.comment", [some, all], { title: "read" });
  await service.as(all.userId).markAllRead({});
  await service.as(some.userId).markAllRead({});
  await send("social.comment", [some], { title: "unread" });
  toNext("daily");
  await settled(some, "unread", "sent");
  await settled(all, "read", "dropped");
  await quiet();
  expect(mailsOf(all)).toEqual([]);
  expect(mailsOf(some)[0]!.text).toContain("- unread");
  expect(mailsOf(some)[0]!.text).not.toContain("- read");
  expect(await mailOf(some, "read")).toMatchObject({ state: "dropped", reason: "read" });
  expect(await mailOf(all, "read")).toMatchObject({ state: "dropped", reason: "read" });
});

test("a failure is left out when a later deployment of the service is live, also for users not notified of that", async () => {
  const { set, mailOf, settled, mailsOf, toNext, quiet } = scene;
  const eve = await reader("deploy.failed");
  await set(eve, "deploy.ready", "off", "immediate");
  const accountId = service.account([eve, "owner"]);
  const [web, api] = ["web", "api"].map((serviceName) => service.service(accountId, { serviceName }));
  const fail = (serviceId: string, version: number) =>
    service.publish("deployer", DeploymentFailedSchema, accountId, { accountId, serviceId, version });
  await fail(web!, 3);
  await fail(api!, 2);
  const { data } = await eventually("both are notified", async () => {
    const page = await service.as(eve.userId).listNotifications({});
    return page.data.length === 2 ? page : undefined;
  });
  const [apiTitle, webTitle] = data.map(({ title }) => title) as [string, string];
  await service.publish("deployer", ReleaseHealthySchema, accountId, {
    accountId,
    serviceId: web!,
    version: 4,
  });
  await service.publish("deployer", ReleaseHealthySchema, accountId, {
    accountId,
    serviceId: api!,
    version: 1,
  });
  expect(await settled(eve, webTitle, "dropped")).toMatchObject({ reason: "healed" });
  toNext("daily");
  await settled(eve, apiTitle, "sent");
  await quiet();
  expect(mailsOf(eve)).toHaveLength(1);
  expect(mailsOf(eve)[0]!.text).not.toContain(webTitle);
  expect((await mailOf(eve, webTitle)).reason).toBe("healed");
});

test("an incident is left out when the service is healthy again, but not when it became unhealthy once more", async () => {
  const { settled, mailsOf, toNext, quiet } = scene;
  const ivy = await reader("deploy.unhealthy");
  const accountId = service.account([ivy, "owner"]);
  const [well, ill] = ["well", "ill"].map((serviceName) =>
    service.service(accountId, { serviceName, deployment: { version: 1, wasHealthy: true } }),
  );
  const sign = (
    schema: typeof ReleaseUnhealthySchema | typeof ReleaseRecoveredSchema,
    serviceId: string,
    n: number,
  ) =>
    service.publish("deployer", schema, accountId, {
      accountId,
      serviceId,
      version: 1,
      at: timestampFromMs(service.clock.ms + n),
    });
  for (const serviceId of [well!, ill!]) {
    await sign(ReleaseUnhealthySchema, serviceId, 1);
    await sign(ReleaseRecoveredSchema, serviceId, 2);
  }
  await sign(ReleaseUnhealthySchema, ill!, 3);
  await eventually("all signs are seen", async () => {
    const text =
      "select from incidents where service_id = $1 and closed_at is null and opened_at < unhealthy_at";
    return (await service.pool.query(text, [ill])).rowCount === 1;
  });
  toNext("daily");
  await settled(ivy, "ill is unhealthy", "sent");
  expect(await settled(ivy, "well is unhealthy", "dropped")).toMatchObject({ reason: "healed" });
  await quiet();
  expect(mailsOf(ivy)).toHaveLength(1);
  expect(mailsOf(ivy)[0]!.text).not.toContain("well is unhealthy");
});

test("a user whose address is no longer verified gets no digest, and can see why", async () => {
  const { send, settled, mailsOf, toNext } = scene;
  const gone = await reader();
  await send("social.comment", [gone], { title: "unreachable" });
  service.neighbours.users.set(gone.userId, { ...gone, emailVerified: false });
  toNext("daily");
  expect(await settled(gone, "unreachable", "dropped")).toMatchObject({ reason: "not_verified" });
  expect(mailsOf(gone)).toEqual([]);
});
