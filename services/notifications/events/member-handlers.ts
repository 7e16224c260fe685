import {
  InvitationCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { KindKey } from "../kinds/kinds.ts";
import type { Notice } from "../notices/notify.ts";
import { nameOf, onTime, roleText, timeKey } from "../notices/text.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Announce } from "./announce.ts";

/** Handlers of what happens to members of accounts. */
export function memberHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  /** Returns the notice about a member to the owners, except the member and the one who acted. */
  async function toOwners(
    kind: KindKey,
    { accountId, userId }: { accountId: string; userId: string },
    { by = "", dedupe, content }: { by?: string; dedupe: string; content: (names: Names) => Content },
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
      ...content(names),
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
      const content = ({ name, handle }: Names) => ({
        title: `${name} joined ${handle}`,
        body: `${name} is now ${roleText(event.role)} of ${handle}. Owners can change roles and remove members.`,
      });
      const dedupe = `${event.accountId}:${event.userId}:${timeKey(event.at)}`;
      return [await toOwners("member.joined", event, { dedupe, content })];
    }),

    announce(MemberRoleChangedSchema, async ({ accountId, userId, role, previousRole, at }) => {
      const { handle } = await directory.account(accountId);
      return toMember(userId, {
        kind: "member.role_changed",
        accountId,
        title: `You are now ${roleText(role)} of ${handle}`,
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
      const content = ({ name, actor }: Names) => ({
        title: left || !byUserId ? `${name} left ${handle}` : `${actor} removed ${name} from ${handle}`,
        body: `${name} is no longer a member of ${handle}. Tokens and applications of ${name} no longer have access.`,
      });
      const owners = await toOwners("member.left", event, { by: byUserId, dedupe, content });
      if (left) return [owners];
      const by = byUserId ? ` ${nameOf(actor)} removed you${onTime(at)}.` : "";
      const removed = await toMember(userId, {
        kind: "member.removed",
        accountId,
        title: `You are no longer a member of ${handle}`,
        body: `You, your tokens and your applications no longer have access to ${handle}.${by} An owner of ${handle} can invite you again.`,
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
        notMailed: "invitation",
      });
    }),
  ];
}

type Names = { handle: string; name: string; actor: string };
type Content = Pick<Notice, "title" | "body">;

const ROLES: Record<string, string> = {
  reader: "You can see everything in the account, and reveal variables.",
  editor: "You can deploy, and change services and variables.",
  owner: "You can do everything, and manage members.",
};
