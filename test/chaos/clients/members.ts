import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../../services/kit/testing/random.ts";
import { type Client, isUnknown } from "./client.ts";
import { join } from "./joining.ts";
import { isPossible, type Member, type Record } from "./record.ts";
import { expectRefused } from "./refused.ts";
import type { Shared, Work } from "./shared.ts";

const ROLES = ["reader", "editor", "owner"];
/** A user may send 200 invitations a day. */
const MOST_INVITED = 180;
const GONE = { wanted: [404] };

/** Invites people, who join by the link in their mail; gives them other roles, and removes them. */
export const members =
  (record: Record): Work =>
  async (client, shared, random, round) => {
    const present = record.members.filter(({ removed }) => removed === undefined);
    const own = present.filter((one) => one.client === client.name);
    if (own.length < 2 && record.invited.length < MOST_INVITED) {
      const joined = await invite(client, shared, record, random, round);
      if (joined) record.members.push(joined);
      return;
    }
    const member = own.length > 0 ? random.of(own) : undefined;
    if (!member) return void (await delay(1_000));
    if (random.next() < 0.6) await changeRole(client, shared, member, random);
    else await remove(client, shared, member);
  };

/** Returns the new member, unless it is not known whether the person joined. */
async function invite(
  client: Client,
  shared: Shared,
  record: Record,
  random: Random,
  round: number,
): Promise<Member | undefined> {
  const email = `${client.name}-${round}@chaos.example`;
  const password = `a-password-of-${client.name}-${round}`;
  const role = random.of(ROLES);
  const members = `${shared.account}/members`;
  const how = { allowed: [429] };
  const made = await client.effect(
    { action: "invitation.create" },
    `invite-${round}`,
    members,
    { email, role },
    random,
    how,
  );
  if (!made) return undefined;
  record.invited.push(email);
  // The check afterwards says if its mail is missing.
  const joined = await join(client, shared.mailbox, { email, password });
  return (
    joined && { client: client.name, role: { last: role, unknown: new Set(), underWay: false }, ...joined }
  );
}

async function changeRole(client: Client, { account }: Shared, member: Member, random: Random) {
  // One that the member does not have: no change is not recorded.
  const role = random.of(ROLES.filter((one) => !isPossible(member.role, one)));
  if (!role) return;
  const answer = await client.write("PATCH", `${account}/members/${member.userId}`, { role });
  if (answer.status === 200) member.role.last = role;
  else if (isUnknown(answer)) member.role.unknown.add(role);
}

async function remove(client: Client, shared: Shared, member: Member): Promise<void> {
  const token = member.token;
  // So that the gateway knows the token.
  if (token) await client.send("GET", `${shared.account}/projects`, undefined, { token });
  const path = `${shared.account}/members/${member.userId}`;
  let answer = await client.write("DELETE", path, undefined, GONE);
  for (; isUnknown(answer); answer = await client.write("DELETE", path, undefined, GONE)) await delay(500);
  member.removed = Date.now();
  const what = `a token of ${member.userId}, who was removed,`;
  if (token) await expectRefused(client, shared, { token, ended: member.removed, what, status: 403 });
}
