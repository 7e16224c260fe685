import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  AccountCreatedSchema,
  ClientRegisteredSchema,
  InvitationCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  PasswordChangedSchema,
  TokenCreatedSchema,
  TokenRevokedSchema,
  UserSignedInSchema,
} from "../../proto/gen/berth/identity/v1/events_pb.ts";
import { connectBus, STREAM } from "../kit/events/bus.ts";
import { createLog } from "../kit/log.ts";
import { eventually } from "../kit/testing/testing.ts";
import { startIdentity, type TestIdentity } from "./testing.ts";

const schemas: DescMessage[] = [
  AccountCreatedSchema,
  ClientRegisteredSchema,
  InvitationCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  PasswordChangedSchema,
  TokenCreatedSchema,
  TokenRevokedSchema,
  UserSignedInSchema,
];
let it: TestIdentity;
let bus: ReturnType<typeof connectBus>;
const seen: { subject: string; event: Record<string, unknown> }[] = [];

beforeAll(async () => {
  it = await startIdentity();
  bus = connectBus(it.nats.url, "listener", createLog("test", "silent"));
  const { js, manager } = await bus.connected;
  await manager.consumers.add(STREAM, {
    durable_name: "listener",
    filter_subject: "berth.identity.v1.>",
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.All,
  });
  const consumer = await js.consumers.get(STREAM, "listener");
  void consumer.consume({
    callback: (message) => {
      const schema = schemas.find((each) => each.name === message.subject.split(".")[3]);
      if (!schema) return;
      const {
        $typeName: _,
        at: _at,
        ...event
      } = fromBinary(schema, message.data) as unknown as Record<string, unknown>;
      seen.push({ subject: message.subject.replace("berth.identity.v1.", ""), event });
    },
  });
});
afterAll(async () => {
  await bus.close();
  await it.stop();
});

const about = (id: string, count: number) =>
  eventually(`${count} events about ${id}`, async () => {
    const found = seen.filter(({ event }) => Object.values(event).includes(id));
    return found.length >= count && found;
  });

test("the first owner's account, membership and token are announced", async () => {
  const { tokenId } = (await it.as(it.ownerToken)).caller;
  expect(await about(it.ownerId, 3)).toMatchObject([
    {
      subject: `AccountCreated.${it.accountId}`,
      event: { accountId: it.accountId, handle: "owner", ownerUserId: it.ownerId },
    },
    {
      subject: `MemberAdded.${it.accountId}`,
      event: { accountId: it.accountId, userId: it.ownerId, role: "owner", founder: true },
    },
    { subject: "TokenCreated.none", event: { userId: it.ownerId, tokenId, name: "bootstrap" } },
  ]);
});

test("each change of a member is announced once, in order, and an unchanged role is not", async () => {
  const accountId = await it.account();
  const { userId } = await it.member("reader", accountId);
  const { accounts } = await it.as(it.ownerToken, accountId);
  await accounts.updateMember({ accountId, userId, role: "editor" });
  await accounts.updateMember({ accountId, userId, role: "editor" });
  await accounts.removeMember({ accountId, userId });
  const events = await about(userId, 4);
  expect(events).toMatchObject([
    { subject: `MemberAdded.${accountId}`, event: { accountId, userId, role: "reader" } },
    { subject: "UserSignedIn.none", event: { userId, ip: "203.0.113.7", sessionId: expect.any(String) } },
    {
      subject: `MemberRoleChanged.${accountId}`,
      event: { accountId, userId, role: "editor", previousRole: "reader" },
    },
    { subject: `MemberRemoved.${accountId}`, event: { accountId, userId, byUserId: it.ownerId } },
  ]);
});

test("a revoked token and an ended session are announced, so that gateways drop them", async () => {
  const { token, userId } = await it.member("reader");
  const { sessions, caller } = await it.as(token);
  const made = await sessions.createToken({ name: "ci" });
  await sessions.revokeToken({ tokenId: made.id });
  await sessions.signOut({});
  expect(await about(made.id, 2)).toMatchObject([
    { subject: "TokenCreated.none", event: { userId, tokenId: made.id, name: "ci" } },
    { subject: "TokenRevoked.none", event: { userId, tokenId: made.id, name: "ci", personalTokens: 1 } },
  ]);
  expect(await about(caller.tokenId!, 2)).toMatchObject([
    { subject: "UserSignedIn.none", event: { userId, sessionId: caller.tokenId } },
    { subject: "TokenRevoked.none", event: { userId, tokenId: caller.tokenId } },
  ]);
});

test("a sign-in from elsewhere counts as a new network, the first one does not", async () => {
  const { userId, email, password } = await it.member("reader");
  for (const ip of ["203.0.113.8", "198.51.100.1", "198.51.100.2", "198.51.100.1"])
    await it.anonymous(ip).signIn({ email, password });
  const signedIn = (await about(userId, 6)).filter(({ subject }) => subject === "UserSignedIn.none");
  const networks = signedIn.map(({ event: { ip, newNetwork } }) => [ip, newNetwork]);
  expect(networks).toEqual([
    ["203.0.113.7", false],
    ["203.0.113.8", true],
    ["198.51.100.1", true],
    ["198.51.100.2", true],
    ["198.51.100.1", false],
  ]);
});

test("a new password is announced, and an invitation, with the user who is verified to own its e-mail", async () => {
  const { token, userId, email, password } = await it.member("reader");
  await (await it.as(token)).passwords.changePassword({ current: password, new: "another-long-password" });
  const changed = (await about(userId, 3)).filter(({ subject }) => subject === "PasswordChanged.none");
  expect(changed).toMatchObject([{ event: { userId, byLink: false } }]);
  const accountId = await it.account();
  const { invitations } = await it.as(it.ownerToken, accountId);
  for (const to of [email, "unknown@example.com"]) {
    const { id } = await invitations.inviteMember({ accountId, email: to, role: "editor" });
    const event = { accountId, invitationId: id, role: "editor", invitedByUserId: it.ownerId };
    expect(await about(id!, 1)).toMatchObject([{ event: { ...event, userId: to === email ? userId : "" } }]);
  }
});

test("an OAuth client that registers is announced, in no account", async () => {
  const metadata = Buffer.from('{"client_name": "An app", "redirect_uris": ["http://localhost/"]}');
  const { result } = await it.gateway.registerClient({ metadata, ip: "203.0.113.7" });
  const { client_id: clientId } = JSON.parse(result.value as string);
  expect(await about(clientId, 1)).toEqual([
    { subject: "ClientRegistered.none", event: { clientId, clientName: "An app" } },
  ]);
});
