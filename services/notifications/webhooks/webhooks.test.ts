import { Webhook as Verifier } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  DeploymentQueuedSchema,
  DomainActivatedSchema,
  DomainFailedSchema,
  ReleaseHealthySchema,
  RunEndedSchema,
  ServiceCreatedSchema,
  ServiceDeletedSchema,
  ServiceRenamedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import {
  AccountDeletedSchema,
  MemberRoleChangedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { at } from "../events/testing.ts";
import { sweep } from "../retention/retention.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import { type Received, type Receiver, startReceiver } from "./testing.ts";

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
afterEach(() => berth.pool.query("update webhooks set enabled = false"));

type Settings = { events?: string[]; format?: string; path?: string };

/** An account with an owner, a service, and a webhook to a path of the receiver. */
async function scene({ events = [], format, path = `/${newId("p")}` }: Settings = {}) {
  const owner = berth.user({ displayName: "Ada" });
  const accountId = berth.account([owner, "owner"]);
  const serviceId = berth.service(accountId);
  const client = berth.webhooks(accountId);
  const made = await client.createWebhook({ accountId, url: receiver.base + path, events, format });
  const of = { accountId, webhookId: made.id };
  return {
    ...of,
    of,
    owner,
    serviceId,
    client,
    path,
    secret: made.secret!,
    /** Publishes that a version is live. */
    live: (version: number, eventId?: string) =>
      berth.publish("deployer", ReleaseHealthySchema, accountId, { accountId, serviceId, version }, eventId),
    deliveries: async (state?: string) =>
      (await client.listWebhookDeliveries({ ...of, state, limit: 100 })).data,
  };
}

const verified = (secret: string, { body, headers }: Received) =>
  new Verifier(secret).verify(body, headers as Record<string, string>) as {
    type: string;
    timestamp: string;
    data: { accountId: string; title: string; body: string; metadata: Record<string, string> };
  };

/** Makes what waits due at once. */
const hurry = (webhookId: string) =>
  berth.pool.query(
    "update webhook_deliveries set due_at = now(), leased_until = null where webhook_id = $1 and state = 'pending'",
    [webhookId],
  );

test("an event arrives once, signed as Standard Webhooks say, also when it is published again", async () => {
  const { live, path, secret, accountId, serviceId, deliveries } = await scene();
  const eventId = newId("evt");
  for (const id of [eventId, eventId, newId("evt")]) await live(1, id);
  await live(2);
  const received = await receiver.arrived(path, 2);
  const bodies = received.map((one) => verified(secret, one));
  expect(bodies.find(({ data }) => data.metadata.version === "1")).toMatchObject({
    type: "deploy.ready",
    data: {
      accountId,
      title: "web is live with version 1",
      body: "Version 1 of web in shop, production is healthy.",
      metadata: { project: "shop", environment: "production", service: "web", serviceId },
    },
  });
  expect(Date.parse(bodies[0]!.timestamp)).toBeGreaterThan(Date.now() - 60_000);
  expect(received[0]!.headers["content-type"]).toBe("application/json");
  const listed = await eventually("both are recorded", async () => {
    const found = await deliveries("delivered");
    return found.length === 2 && found;
  });
  expect(listed.map(({ id }) => id).sort()).toEqual(
    received.map(({ headers }) => headers["webhook-id"]).sort(),
  );
  expect(listed[0]).toMatchObject({ kind: "deploy.ready", attempts: 1, status: 204 });
  expect(await deliveries()).toHaveLength(2);
});

test("webhooks are told of services, their deployments and of roles, by the kinds that they ask for", async () => {
  const { accountId, serviceId, path, secret, owner } = await scene({
    events: ["service.*", "deploy.queued"],
  });
  const roles = await berth
    .webhooks(accountId)
    .createWebhook({ accountId, url: `${receiver.base}/roles${path}`, events: ["member.role_changed"] });
  const ids = { accountId, serviceId, projectId: "prj_1", environmentId: "env_1" };
  const named = { ...ids, name: "web", type: "web" };
  await berth.publish("deployer", ServiceCreatedSchema, accountId, named);
  await berth.publish("deployer", DeploymentQueuedSchema, accountId, { ...ids, version: 3 });
  await berth.publish("deployer", ReleaseHealthySchema, accountId, { ...ids, version: 3 });
  await berth.publish("deployer", ServiceRenamedSchema, accountId, {
    ...named,
    name: "site",
    namedAt: at(1),
  });
  await berth.publish("deployer", ServiceDeletedSchema, accountId, {
    ...named,
    name: "site",
    withEnvironment: true,
  });
  await berth.publish("identity", MemberRoleChangedSchema, accountId, {
    ...{ accountId, userId: owner.userId, role: "editor", previousRole: "owner", at: at(2) },
  });
  const bodies = (await receiver.arrived(path, 4)).map((one) => verified(secret, one));
  const titleOf = Object.fromEntries(bodies.map(({ type, data }) => [type, data.title]));
  expect(titleOf).toEqual({
    "service.created": "Service web was created",
    "deploy.queued": "Deployment 3 of web was queued",
    "service.renamed": "A service was renamed to site",
    "service.deleted": "Service site was deleted",
  });
  expect(bodies.find(({ type }) => type === "service.created")!.data).toMatchObject({
    body: "The web service web was created in shop, production.",
    metadata: { type: "web", service: "web", project: "shop" },
  });
  const [changed] = await receiver.arrived(`/roles${path}`);
  expect(verified(roles.secret!, changed!).data.title).toMatch(/^Ada is now an editor of /);
});

test("webhooks are told of domains that are served, and that are no longer", async () => {
  const { accountId, serviceId, path, secret } = await scene({ events: ["domain.*"] });
  const domain = { accountId, serviceId, domainId: "dom_1", host: "shop.example.com" };
  await berth.publish("deployer", DomainActivatedSchema, accountId, { ...domain, at: at(1) });
  await berth.publish("deployer", DomainFailedSchema, accountId, {
    ...domain,
    reason: "It is gone.",
    at: at(2),
  });
  const bodies = (await receiver.arrived(path, 2)).map((one) => verified(secret, one));
  const bodyOf = Object.fromEntries(bodies.map(({ type, data }) => [type, data.body]));
  expect(bodyOf).toEqual({
    "domain.active": expect.stringMatching(/ answers at shop\.example\.com\.$/),
    "domain.failed": expect.stringMatching(/^shop\.example\.com of .*: It is gone\.$/),
  });
  expect(bodies[0]!.data.metadata).toMatchObject({ domainId: "dom_1", host: "shop.example.com" });
});

test("webhooks are told of each run that ended", async () => {
  const { accountId, serviceId, path, secret } = await scene({ events: ["run.ended"] });
  const run = { accountId, serviceId, at: at(1) };
  await berth.publish("deployer", RunEndedSchema, accountId, {
    ...{ ...run, runId: "run_1", trigger: "manual", status: "failed", exitCode: 3 },
  });
  await berth.publish("deployer", RunEndedSchema, accountId, {
    ...{ ...run, runId: "run_2", trigger: "schedule", status: "succeeded", exitCode: 0 },
  });
  const bodies = (await receiver.arrived(path, 2)).map((one) => verified(secret, one));
  const [manual, scheduled] = ["run_1", "run_2"].map(
    (runId) => bodies.find(({ data }) => data.metadata.runId === runId)!.data,
  );
  expect(manual!.title).toBe("A run of web failed");
  expect(manual!.body).toMatch(/^A run of web in .* ended\. It exited with 3\.$/);
  expect(manual!.metadata).toMatchObject({ status: "failed", trigger: "manual", exitCode: "3" });
  expect(scheduled!.title).toBe("A run of web succeeded");
});

test("a webhook of Slack gets a text, in which nothing is a link or a mention", async () => {
  const { accountId, owner, path } = await scene({ format: "slack" });
  berth.neighbours.users.set(owner.userId, { ...owner, displayName: "Ada & Co" });
  await berth.publish("identity", MemberRoleChangedSchema, accountId, {
    ...{ accountId, userId: owner.userId, role: "editor", previousRole: "owner", at: at(3) },
  });
  const [received] = await receiver.arrived(path);
  const { text, ...rest } = JSON.parse(received!.body);
  expect(rest).toEqual({});
  expect(text).toMatch(/^\*Ada &amp; Co is now an editor of \w+\*\nThe role of Ada &amp; Co in /);
});

test("what fails is sent again with the same id and body", async () => {
  const { live, path, secret, webhookId, deliveries } = await scene();
  receiver.on(path, (res, nth) => void res.writeHead(nth === 1 ? 500 : 200).end("details"));
  await live(1);
  const [waiting] = await eventually("the first attempt is recorded", async () => {
    const found = await deliveries("pending");
    return found[0]?.status === 500 && found;
  });
  expect(waiting).toMatchObject({ attempts: 1, state: "pending" });
  expect(Number(waiting!.nextAttemptAt!.seconds)).toBeGreaterThan(Number(waiting!.attemptedAt!.seconds));
  await hurry(webhookId);
  const [first, second] = await receiver.arrived(path, 2);
  expect(second!.headers["webhook-id"]).toBe(first!.headers["webhook-id"]);
  expect(second!.body).toBe(first!.body);
  verified(secret, second!);
  await eventually("it is delivered", async () => (await deliveries("delivered"))[0]?.attempts === 2);
});

test("a receiver that hangs holds up no other, gets two at a time, and is given up after 15 s", async () => {
  const hanging = await scene();
  let [open, most] = [0, 0];
  receiver.on(hanging.path, (res) => {
    most = Math.max(most, ++open);
    res.on("close", () => open--);
  });
  for (let version = 1; version <= 6; version++) await hanging.live(version);
  await receiver.arrived(hanging.path, 2);
  const other = await scene();
  for (let version = 1; version <= 20; version++) await other.live(version);
  await receiver.arrived(other.path, 20);
  const timedOut = await eventually("an attempt is given up", async () => {
    const found = await hanging.deliveries("pending");
    return found.find(({ error }) => error === "timeout");
  });
  expect(most).toBe(2);
  expect(timedOut.status).toBeUndefined();
});

test("after a rotation both secrets sign for a day, then the new one alone", async () => {
  const { live, path, secret, client, of } = await scene();
  const { secret: next } = await client.rotateWebhookSecret(of);
  expect(next).not.toBe(secret);
  await live(1);
  const [both] = await receiver.arrived(path);
  for (const one of [secret, next!]) verified(one, both!);
  await berth.pool.query("update webhooks set previous_until = now() where id = $1", [of.webhookId]);
  await live(2);
  const [, alone] = await receiver.arrived(path, 2);
  verified(next!, alone!);
  expect(() => verified(secret, alone!)).toThrow("No matching signature");
  const stored = await berth.pool.query("select secret from webhooks where id = $1", [of.webhookId]);
  expect(stored.rows[0].secret.includes(Buffer.from(next!.slice(6), "base64"))).toBe(false);
  expect(berth.logLines.join("\n")).not.toContain(next!);
});

test("a test arrives whatever the kinds are, is sent once, and shows what became of it", async () => {
  const { client, of, path, secret, deliveries } = await scene({ events: ["billing.*"] });
  receiver.on(path, (res) => void res.writeHead(404).end());
  const queued = await client.testWebhook(of);
  expect(queued).toMatchObject({ kind: "webhook.test", state: "pending", attempts: 0 });
  const [received] = await receiver.arrived(path);
  expect(verified(secret, received!)).toMatchObject({ type: "webhook.test" });
  await eventually("it failed", async () => (await deliveries("failed"))[0]?.status === 404);
  expect((await client.getWebhook(of)).enabled).toBe(true);
});

test("a delivery is replayed with its id, unless it still waits or the webhook is disabled", async () => {
  const { live, client, of, path, deliveries } = await scene();
  await live(1);
  const [first] = await receiver.arrived(path);
  const delivered = await eventually("it is delivered", async () => (await deliveries("delivered"))[0]);
  const deliveryId = delivered.id;
  expect(JSON.parse((await client.getWebhookDelivery({ ...of, deliveryId })).body!)).toMatchObject({
    type: "deploy.ready",
  });
  receiver.on(path, () => {});
  expect(await client.replayWebhookDelivery({ ...of, deliveryId })).toMatchObject({ attempts: 0 });
  const [, again] = await receiver.arrived(path, 2);
  expect([again!.headers["webhook-id"], again!.body]).toEqual([deliveryId, first!.body]);
  expect(await refused(client.replayWebhookDelivery({ ...of, deliveryId }))).toContain("delivery_pending");
  expect(await refused(client.replayWebhookDelivery({ ...of, deliveryId: "whd_none" }))).toContain(
    "not_found",
  );
  await client.updateWebhook({ ...of, enabled: false });
  expect(await refused(client.replayWebhookDelivery({ ...of, deliveryId }))).toContain("webhook_disabled");
  expect(await refused(client.testWebhook(of))).toContain("webhook_disabled");
  expect(await deliveries("failed")).toMatchObject([{ error: "disabled" }]);
});

test("a receiver that failed for three days is disabled with a notice to the owners, and enabled again by one", async () => {
  const { live, client, of, webhookId, owner, path, deliveries } = await scene();
  receiver.on(path, (res) => void res.writeHead(503).end());
  await live(1);
  await live(2);
  await eventually("both were tried", async () => {
    const tried = (await deliveries("pending")).filter(({ status }) => status === 503);
    return tried.length === 2;
  });
  const nearlyOver =
    "update webhook_deliveries set tries = 12, due_at = now() where webhook_id = $1 and id = $2";
  const [newest] = await deliveries();
  await berth.pool.query(nearlyOver, [webhookId, newest!.id]);
  const disabled = await eventually("it is disabled", async () => {
    const found = await client.getWebhook(of);
    return !found.enabled && found;
  });
  expect(disabled).toMatchObject({ disabledReason: "failing" });
  expect((await deliveries()).map(({ state, error }) => `${state} ${error ?? ""}`)).toEqual([
    "failed ",
    "failed disabled",
  ]);
  const mails = () => berth.box.for(owner.email).filter(({ text }) => text.includes("accepted nothing"));
  const mail = await eventually("the owner is told", async () => mails()[0]);
  expect(mail.headers.get("subject")).toMatch(/^A webhook of \w+ was disabled$/);
  const { data: feed } = await berth.as(owner.userId).listNotifications({ limit: 100 });
  expect(feed.find(({ kind }) => kind === "webhook.disabled")!.metadata).toMatchObject({ webhookId });
  await live(3);
  receiver.on(path, (res) => void res.writeHead(204).end());
  const enabled = await client.updateWebhook({ ...of, enabled: true });
  expect(enabled).toMatchObject({ enabled: true });
  expect(enabled.disabledReason).toBeUndefined();
  await live(4);
  await eventually("it is sent again", async () => (await deliveries("delivered")).length > 0);
  expect(JSON.parse(receiver.at(path).at(-1)!.body).data.metadata.version).toBe("4");
});

test("one event that was never accepted disables no webhook to which others were delivered meanwhile", async () => {
  const { live, client, of, webhookId, path, deliveries } = await scene();
  receiver.on(path, (res, nth) => void res.writeHead(nth === 2 ? 204 : 500).end());
  await live(1);
  await eventually("it was tried", async () => (await deliveries("pending"))[0]?.status === 500);
  await live(2);
  await eventually("another is delivered", async () => (await deliveries("delivered")).length === 1);
  await berth.pool.query(
    "update webhook_deliveries set tries = 12, due_at = now() where webhook_id = $1 and state = 'pending'",
    [webhookId],
  );
  await eventually("it is given up", async () => (await deliveries("failed")).length === 1);
  expect((await client.getWebhook(of)).enabled).toBe(true);
});

test("a receiver that is gone is disabled at once", async () => {
  const { live, client, of, path } = await scene();
  receiver.on(path, (res) => void res.writeHead(410).end());
  await live(1);
  await eventually("it is disabled", async () => (await client.getWebhook(of)).disabledReason === "gone");
});

test("a receiver that is gone by the time it answers does not disable a webhook that has another URL by then", async () => {
  const { live, client, of, path, accountId } = await scene();
  const held = Promise.withResolvers<() => void>();
  receiver.on(path, (res) => held.resolve(() => void res.writeHead(410).end()));
  await live(1);
  const answer = await held.promise;
  const next = `/${newId("p")}`;
  await client.updateWebhook({ ...of, accountId, url: receiver.base + next });
  answer();
  await receiver.arrived(next, 1);
  expect((await client.getWebhook(of)).enabled).toBe(true);
});

test("an account has at most 10, also when they are created at once, and sees no other's", async () => {
  const { accountId, client, of } = await scene();
  const url = `${receiver.base}/many`;
  const answers = await Promise.allSettled(
    Array.from({ length: 12 }, () => client.createWebhook({ accountId, url })),
  );
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(9);
  expect(await refused(client.createWebhook({ accountId, url }))).toContain("quota_exceeded");
  const { data } = await client.listWebhooks({ accountId });
  expect(data).toHaveLength(10);
  expect(data.every(({ secret }) => secret === undefined)).toBe(true);
  const stranger = newId("acc");
  const theirs = { ...of, accountId: stranger };
  const other = berth.webhooks(stranger);
  const strange = [
    other.getWebhook(theirs),
    other.updateWebhook({ ...theirs, enabled: false }),
    other.deleteWebhook(theirs),
    other.rotateWebhookSecret(theirs),
    other.testWebhook(theirs),
    other.listWebhookDeliveries(theirs),
    other.replayWebhookDelivery({ ...theirs, deliveryId: "whd_1" }),
  ].map(refused);
  for (const answer of await Promise.all(strange)) expect(answer).toContain("not_found");
  expect((await other.listWebhooks({ accountId: stranger })).data).toEqual([]);
});

test("deliveries are listed in pages by state", async () => {
  const { live, client, of, path, deliveries } = await scene();
  for (let version = 1; version <= 5; version++) await live(version);
  await receiver.arrived(path, 5);
  await eventually("all are recorded", async () => (await deliveries("delivered")).length === 5);
  const first = await client.listWebhookDeliveries({ ...of, state: "delivered", limit: 3 });
  const cursor = first.page!.nextCursor;
  const second = await client.listWebhookDeliveries({ ...of, state: "delivered", limit: 3, cursor });
  const ids = [...first.data, ...second.data].map(({ id }) => id);
  expect(ids).toEqual((await deliveries()).map(({ id }) => id));
  expect(await refused(client.listWebhookDeliveries({ ...of, state: "failed", cursor }))).toContain(
    "malformed_request",
  );
});

test("deliveries are kept for 7 days, and at most 1,000 of a webhook; what waits is kept", async () => {
  const { webhookId, deliveries } = await scene();
  await berth.pool.query(
    `insert into webhook_deliveries (id, webhook_id, kind, body, dedupe_key, state, due_at, created_at)
     select 'whd_' || to_char(n, 'FM000000'), $1, 'deploy.ready', '{}', n,
       case when n % 2 = 0 then 'delivered' else 'pending' end, now() + interval '1 day',
       now() - make_interval(days => case when n <= 20 then 8 else 1 end)
     from generate_series(1, 2020) n`,
    [webhookId],
  );
  await Promise.all([sweep(berth.pool, Date.now()), sweep(berth.pool, Date.now())]);
  const count = async (state: string) => {
    const text = "select count(*)::int as n from webhook_deliveries where webhook_id = $1 and state = $2";
    return (await berth.pool.query(text, [webhookId, state])).rows[0].n;
  };
  expect([await count("pending"), await count("delivered")]).toEqual([1_010, 500]);
  expect((await deliveries("delivered"))[0]!.id).toBe("whd_002020");
});

test("nothing of an account's webhooks is left when it is deleted", async () => {
  const { accountId, webhookId, live, path } = await scene();
  await live(1);
  await receiver.arrived(path);
  await berth.publish("identity", AccountDeletedSchema, accountId, { accountId, at: at(1) });
  await eventually("it is deleted", async () => {
    const { rows } = await berth.pool.query("select 1 from webhooks where id = $1", [webhookId]);
    return rows.length === 0;
  });
  const { rows } = await berth.pool.query("select 1 from webhook_deliveries where webhook_id = $1", [
    webhookId,
  ]);
  expect(rows).toEqual([]);
});
