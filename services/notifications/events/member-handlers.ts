import {
  InvitationCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { KindKey } from "../catalog/kinds.ts";
import type { Notice } from "../notices/notify.ts";
import { audienceOf, type Directory, nameOf } from "../notices/recipients.ts";
import { onTime, roleText, timeKey } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

/** Handlers of what happens to members of accounts. */
export function memberHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  /** Returns the notice of a member to owners, who do not include the member nor who did it. */
  async function toOwners(
    kind: KindKey,
    { accountId, userId }: { accountId: string; userId: string },
    { by = "", dedupe, words }: { by?: string; dedupe: string; words: (names: Names) => Words },
  ): Promise<Notice> {
    const [{ handle, members }, user, actor] = await Promise.all([
      directory.account(accountId),
      directory.user(userId),
      directory.user(by),
    ]);
    const names = { handle, name: nameOf(user, "A member"), actor: nameOf(actor) };
    const metadata = { account: handle, userId };
    return {
      kind,
      accountId,
      ...words(names),
      metadata,
      dedupe,
      recipients: audienceOf(kind, members, userId, by),
    };
  }

  /** Returns the notice to a member of an account; none when there is no such user. */
  async function toMember(userId: string, notice: Omit<Notice, "recipients">): Promise<Notice[]> {
    const user = await directory.user(userId);
    return user ? [{ ...notice, recipients: [user] }] : [];
  }

  return [
    announce(MemberAddedSchema, async (event) => {
      if (event.founder) return [];
      const words = ({ name, handle }: Names) => ({
        title: `${name} joined ${handle}`,
        body: `${name} is ${roleText(event.role)} of ${handle} now. Owners change roles and remove members.`,
      });
      const dedupe = `${event.accountId}:${event.userId}:${timeKey(event.at)}`;
      return [await toOwners("member.joined", event, { dedupe, words })];
    }),

    announce(MemberRoleChangedSchema, async ({ accountId, userId, role, previousRole, at }) => {
      const { handle } = await directory.account(accountId);
      return toMember(userId, {
        kind: "member.role_changed",
        accountId,
        title: `You are ${roleText(role)} of ${handle} now`,
        body: `Your role in ${handle} changed from ${previousRole} to ${role}${onTime(at)}. ${ROLES[role] ?? ""}`.trim(),
        metadata: { account: handle, role, previousRole },
        dedupe: `${accountId}:${role}:${timeKey(at)}`,
      });
    }),

    announce(MemberRemovedSchema, async (event) => {
      const { accountId, userId, byUserId, at } = event;
      const [{ handle }, actor] = await Promise.all([directory.account(accountId), directory.user(byUserId)]);
      const left = byUserId === userId;
      const dedupe = `${accountId}:${userId}:${timeKey(at)}`;
      const words = ({ name, actor }: Names) => ({
        title: left || !byUserId ? `${name} left ${handle}` : `${actor} removed ${name} from ${handle}`,
        body: `${name} is no longer a member of ${handle}, and neither tokens nor applications of ${name} reach it.`,
      });
      const owners = await toOwners("member.left", event, { by: byUserId, dedupe, words });
      if (left) return [owners];
      const by = byUserId ? ` ${nameOf(actor)} removed you${onTime(at)}.` : "";
      const removed = await toMember(userId, {
        kind: "member.removed",
        accountId,
        title: `You are no longer a member of ${handle}`,
        body: `Your access to ${handle} has ended, and so has that of your tokens and applications.${by} An owner of ${handle} can invite you again.`,
        metadata: { account: handle },
        dedupe,
      });
      return [...removed, owners];
    }),

    announce(InvitationCreatedSchema, async ({ accountId, invitationId, role, invitedByUserId, userId }) => {
      if (userId === "") return [];
      const [{ handle }, inviter] = await Promise.all([
        directory.account(accountId),
        directory.user(invitedByUserId),
      ]);
      return toMember(userId, {
        kind: "member.invited",
        // Not a member yet.
        accountId: "",
        title: `You are invited to ${handle}`,
        body: `${nameOf(inviter)} invited you to be ${roleText(role)} of ${handle}. Accept or decline within 7 days at /me/invitations.`,
        metadata: { account: handle, invitationId, role },
        dedupe: invitationId,
        mailed: "invitation",
      });
    }),
  ];
}

type Names = { handle: string; name: string; actor: string };
type Words = Pick<Notice, "title" | "body">;

const ROLES: Record<string, string> = {
  reader: "You can see what runs, and reveal variables.",
  editor: "You can deploy, and change services and variables.",
  owner: "You can do everything, and manage members.",
};
