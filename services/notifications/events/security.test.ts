import { afterAll, beforeAll, expect, test } from "vitest";
import { ProjectDeletedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import * as identity from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { at, startWithMembers, summaryOf } from "./testing.ts";

type Scene = Awaited<ReturnType<typeof startWithMembers>>;

let service: Scene["service"];
let people: Scene["people"];
let accountId: string;
let publish: Scene["publish"];
let userId: string;

beforeAll(async () => {
  ({ service, people, accountId, publish } = await startWithMembers());
  userId = people.reader.userId;
});
afterAll(() => service.stop());

test("a sign-in from a new network, and a new password, once each", async () => {
  const signedIn = { userId, ip: "203.0.113.9", sessionId: "tok_1", at: at(0) };
  expect(await publish("identity", identity.UserSignedInSchema, signedIn)).toEqual([]);
  const [received] = await publish("identity", identity.UserSignedInSchema, {
    ...signedIn,
    newNetwork: true,
  });
  expect(received).toMatchObject({ to: "reader", title: "New sign-in from 203.0.113.9" });
  expect(received.body).toContain("on 20 November 2026 at 08:00 UTC from 203.0.113.9");
  for (const [byLink, minute] of [
    [true, 1],
    [false, 2],
  ] as const) {
    const changed = await publish("identity", identity.PasswordChangedSchema, {
      userId,
      byLink,
      at: at(minute),
    });
    expect(summaryOf(changed)).toEqual(["reader security.password_changed"]);
    expect(changed[0].body.includes("with a link that was mailed to you")).toBe(byLink);
    expect(changed[0].mailState).not.toBe("none");
  }
});

test("tokens that are created and revoked; not sessions; several at once as one", async () => {
  const created = await publish("identity", identity.TokenCreatedSchema, {
    userId,
    tokenId: "tok_2",
    name: "ci\nhttps://evil.example",
  });
  expect(created[0].title).toBe("API token created: ci https: //evil. example");
  const session = { userId, tokenId: "tok_3", at: at(0) };
  expect(await publish("identity", identity.TokenRevokedSchema, session)).toEqual([]);
  const one = { userId, tokenId: "tok_2", name: "ci", personalTokens: 1, at: at(1) };
  const revoked = await publish("identity", identity.TokenRevokedSchema, one);
  expect(summaryOf(revoked)).toEqual(["reader security.token_revoked"]);
  expect(revoked[0].title).toBe("API token revoked: ci");
  const all = await publish("identity", identity.TokenRevokedSchema, {
    userId,
    personalTokens: 3,
    at: at(2),
  });
  expect(all.map(({ title }) => title)).toEqual(["Your 3 API tokens were revoked"]);
  expect(await publish("identity", identity.TokenRevokedSchema, { userId, at: at(3) })).toEqual([]);
});

test("grants to applications: given, ended by the user in one notice, ended by another with the reason", async () => {
  const grant = { userId, accountId, grantId: "grt_1", clientId: "cli_1", clientName: "Claude" };
  const given = await publish("identity", identity.GrantCreatedSchema, { ...grant, role: "editor" });
  expect(summaryOf(given)).toEqual(["reader security.oauth_granted"]);
  const ended = { ...grant, reason: "user", at: at(0) };
  expect(await publish("identity", identity.GrantRevokedSchema, ended)).toHaveLength(1);
  expect(await publish("identity", identity.GrantRevokedSchema, { ...ended, grantId: "grt_2" })).toEqual([]);
  const [reused] = await publish("identity", identity.GrantRevokedSchema, {
    ...grant,
    grantId: "grt_3",
    reason: "reuse",
    at: at(1),
  });
  expect(reused.title).toMatch(/^Claude no longer has access to h/);
  expect(reused.body).toContain("was used twice");
  const [old] = await publish("identity", identity.GrantRevokedSchema, {
    userId,
    clientId: "cli_9",
    grantId: "grt_9",
  });
  expect(old).toMatchObject({ title: "An application no longer has access", to: "reader" });
  expect(old.body).toBe("Its access has ended. Its tokens are refused from now on.");
});

test("users who do not exist or are disabled are not notified", async () => {
  const gone = newId("usr");
  expect(await publish("identity", identity.PasswordChangedSchema, { userId: gone, at: at(9) })).toEqual([]);
  expect(await publish("identity", identity.TokenCreatedSchema, { userId: gone, tokenId: "tok_9" })).toEqual(
    [],
  );
  const role = { accountId, userId: gone, role: "owner", previousRole: "reader" };
  expect(await publish("identity", identity.MemberRoleChangedSchema, role)).toEqual([]);
});

test("owners are mailed what was revealed whatever they chose, except who revealed it: once an hour", async () => {
  const { owner, actor } = people;
  const revealed = (id: string, more = {}) => ({
    id,
    accountId,
    action: "variable.reveal",
    actor: { kind: "user", id: actor.userId },
    target: "DATABASE_URL",
    metadata: { scope: "service", scopeId: "svc_1" },
    ...more,
  });
  const record = identity.AuditRecordedSchema;
  const kind = "security.variable_revealed";
  const choice = { kind, channel: "off", frequency: "weekly" };
  const as = service.as(owner.userId);
  expect(await as.setNotificationPref(choice)).toMatchObject({ forceEmail: true, channel: "off" });
  const received = await publish("variables", record, revealed("aud_1"));
  expect(summaryOf(received)).toEqual(["owner security.variable_revealed"]);
  expect(received[0].title).toBe("Ada revealed DATABASE_URL");
  const subjects = () =>
    service.box
      .for(owner.email)
      .map(({ headers }) => headers.get("subject")!)
      .filter((subject) => /reveal/.test(subject));
  await eventually("the first is mailed at once", async () => subjects().length > 0);

  await as.setNotificationPref({ ...choice, channel: "both" });
  const machine = { kind: "machine", id: actor.userId };
  const [byMachine] = await publish("variables", record, revealed("aud_2", { actor: machine }));
  expect(byMachine).toMatchObject({
    title: "An application of Ada revealed DATABASE_URL",
    mailState: "digest",
  });
  const [third] = await publish("variables", record, revealed("aud_3", { target: "THIRD" }));
  await as.markAllRead({});
  await as.setNotificationPref(choice);
  expect(await publish("variables", record, revealed("aud_4", { action: "variable.update" }))).toEqual([]);
  const { rows } = await service.pool.query(
    "select extract(epoch from due_at - now())::float8 as seconds from mails where address = $1",
    [owner.email],
  );
  expect(rows).toHaveLength(1);
  expect(rows[0].seconds).toBeGreaterThan(3_000);
  expect(rows[0].seconds).toBeLessThanOrEqual(3_600);

  service.clock.ms += 3_600_000;
  await service.pool.query("update mails set due_at = now()");
  await eventually("the others are one mail", async () => subjects().length > 1);
  expect(subjects()).toEqual([
    "Ada revealed DATABASE_URL",
    "Sensitive variable revealed: 2 times within an hour",
  ]);
  const { text } = service.box.for(owner.email).at(-1)!;
  for (const title of [byMachine.title, third.title]) expect(text).toContain(title);
  expect(text).not.toContain("Unsubscribe from these mails");
  // It is of that hour: the next one waits for the hour after.
  expect((await publish("variables", record, revealed("aud_5")))[0].mailState).toBe("digest");
});

test("a set that was revealed is one notification, whatever the number of its variables", async () => {
  const { actor } = people;
  const record = (id: string, target: string, reveal: string, revealed: string) => ({
    id,
    accountId,
    action: "variable.reveal",
    actor: { kind: "user", id: actor.userId },
    target,
    metadata: {
      scope: "project",
      scopeId: "prj_1",
      projectId: "prj_1",
      service: "web",
      serviceId: "svc_1",
      reveal,
      revealed,
    },
  });
  const titles = async (...event: Parameters<typeof record>) =>
    (await publish("variables", identity.AuditRecordedSchema, record(...event))).map(({ title }) => title);
  expect(await titles("aud_s1", "DATABASE_URL", "rvl_1", "2")).toEqual(["Ada revealed 2 variables of web"]);
  expect(await titles("aud_s2", "API_KEY", "rvl_1", "2")).toEqual([]);
  expect(await titles("aud_s3", "API_KEY", "rvl_2", "2")).toEqual(["Ada revealed 2 variables of web"]);
  expect(await titles("aud_s4", "API_KEY", "rvl_3", "1")).toEqual(["Ada revealed API_KEY"]);
});

test("a thousand owners are notified at once", async () => {
  const owners = Array.from({ length: 1_000 }, () => service.user());
  const id = service.account(...owners.map((user) => [user, "owner"] as [typeof user, "owner"]));
  const received = await publish("deployer", ProjectDeletedSchema, {
    accountId: id,
    projectId: "prj_big",
    name: "big",
  });
  expect(received).toHaveLength(1_000);
  expect(new Set(received.map(({ to }) => to))).toEqual(new Set(owners.map(({ userId }) => userId)));
});
