import { afterAll, beforeAll, expect, test } from "vitest";
import { ReleaseHealthySchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { type Receiver, startReceiver } from "../webhooks/testing.ts";

let berth: TestNotifications;
let receiver: Receiver;

beforeAll(async () => {
  berth = await startNotifications();
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver?.stop();
  await berth?.stop();
});

async function createWebhook(path: string) {
  const accountId = berth.account([berth.user(), "owner"]);
  const serviceId = berth.service(accountId);
  const made = await berth.webhooks(accountId).createWebhook({ accountId, url: receiver.base + path });
  const live = (version: number) =>
    berth.publish("deployer", ReleaseHealthySchema, accountId, { accountId, serviceId, version });
  return { id: made.id, live };
}

const allRecorded = (count: number) =>
  eventually("all are delivered and recorded", async () => {
    const text = "select count(*)::int as n from webhook_deliveries where state = 'delivered'";
    return (await berth.pool.query(text)).rows[0].n === count;
  });

test("two replicas send each delivery once, and no more than two at a time to a webhook", async () => {
  const second = await berth.startOne();
  const paths = ["/a", "/b", "/c"];
  const open = new Map(paths.map((path) => [path, 0]));
  let most = 0;
  for (const path of paths)
    receiver.on(path, (res) => {
      open.set(path, open.get(path)! + 1);
      most = Math.max(most, open.get(path)!);
      setTimeout(() => {
        open.set(path, open.get(path)! - 1);
        res.writeHead(204).end();
      }, 20);
    });
  const hooks = await Promise.all(paths.map(createWebhook));
  const versions = Array.from({ length: 15 }, (_, n) => n + 1);
  await Promise.all(hooks.flatMap(({ live }) => versions.map(live)));
  await allRecorded(45);
  await second.stop();
  for (const path of paths) {
    const ids = receiver.at(path).map(({ headers }) => headers["webhook-id"]);
    expect([ids.length, new Set(ids).size]).toEqual([15, 15]);
  }
  expect(most).toBe(2);
});

test("what a killed process sent but did not record is sent again with the same id", async () => {
  await berth.pool.query("delete from webhooks");
  const { id, live } = await createWebhook("/killed");
  await berth.stopOwn();
  const first = await berth.process();
  receiver.on("/killed", (res, nth) => {
    // The event has arrived, and its sender never learns of it.
    if (nth === 1) void first.end("SIGKILL");
    else res.writeHead(204).end();
  });
  await live(1);
  await receiver.arrived("/killed");
  await eventually("it is killed", async () => !first.runs());
  const waiting =
    "select state, tries, leased_until > now() as leased from webhook_deliveries where webhook_id = $1";
  expect((await berth.pool.query(waiting, [id])).rows).toEqual([
    { state: "pending", tries: 1, leased: true },
  ]);
  await berth.process();
  // The lease ends.
  const end = "update webhook_deliveries set due_at = now(), leased_until = now() where webhook_id = $1";
  await berth.pool.query(end, [id]);
  const [sent, again] = await receiver.arrived("/killed", 2);
  expect(again!.headers["webhook-id"]).toBe(sent!.headers["webhook-id"]);
  expect(again!.body).toBe(sent!.body);
  await allRecorded(1);
});
