import {
  GrantCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  TokenCreatedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import { oneLine } from "../../kit/mail/mail.ts";
import type { KindKey } from "../catalog/kinds.ts";
import type { Notice } from "../notices/notify.ts";
import { audienceOf, type Directory } from "../notices/recipients.ts";
import type { Announce } from "./announce.ts";

type Deps = { announce: Announce; directory: Directory };
type About = Pick<Notice, "kind" | "title" | "body" | "dedupe"> & {
  accountId?: string;
  metadata?: Record<string, string>;
};

/** Handlers of identity's events. */
export function identityHandlers({ announce, directory }: Deps): Handler[] {
  /** Returns a notice to one user; undefined when there is no such user. */
  async function toUser(userId: string, about: About): Promise<Notice | undefined> {
    const recipients = await directory.users(userId);
    if (recipients.length === 0) return undefined;
    return { accountId: "", metadata: {}, ...about, recipients };
  }

  /** Returns a notice about a member to the owners of the account, but not to the member. */
  async function toOwners(
    kind: KindKey,
    { accountId, userId }: { accountId: string; userId: string },
    words: (name: string, handle: string) => Pick<Notice, "title" | "body">,
    dedupe: string,
  ): Promise<Notice | undefined> {
    const [{ handle, members }, [user]] = await Promise.all([
      directory.account(accountId),
      directory.users(userId),
    ]);
    if (!user) return undefined;
    const recipients = audienceOf(kind, members).filter((one) => one.userId !== userId);
    const metadata = { account: handle, userId };
    return { kind, accountId, ...words(nameOf(user), handle), metadata, dedupe, recipients };
  }

  return [
    announce(MemberAddedSchema, (event) =>
      toOwners(
        "member.joined",
        event,
        (name, handle) => ({
          title: `${name} joined ${handle}`,
          body: `${name} is a member of ${handle} now, as ${event.role}.`,
        }),
        `${event.accountId}:${event.userId}`,
      ),
    ),
    announce(MemberRoleChangedSchema, async ({ accountId, userId, role, previousRole }) => {
      const { handle } = await directory.account(accountId);
      return toUser(userId, {
        kind: "member.role_changed",
        accountId,
        title: `You are ${role} of ${handle} now`,
        body: `Your role in ${handle} changed from ${previousRole} to ${role}.`,
        metadata: { account: handle, role, previousRole },
        dedupe: `${accountId}:${role}`,
      });
    }),
    announce(MemberRemovedSchema, async ({ accountId, userId }) => {
      const { handle } = await directory.account(accountId);
      return toUser(userId, {
        kind: "member.removed",
        accountId,
        title: `You are no longer a member of ${handle}`,
        body: `Your access to ${handle} has ended, and so has that of your tokens.`,
        metadata: { account: handle },
        dedupe: accountId,
      });
    }),
    announce(TokenCreatedSchema, ({ userId, tokenId, name }) =>
      toUser(userId, {
        kind: "security.token_created",
        title: `API token created: ${oneLine(name)}`,
        body: "If you did not create it, revoke it and change your password.",
        metadata: { tokenId, name },
        dedupe: tokenId,
      }),
    ),
    announce(GrantCreatedSchema, async ({ userId, accountId, grantId, clientId, clientName, role }) => {
      const { handle } = await directory.account(accountId);
      const client = oneLine(clientName);
      return toUser(userId, {
        kind: "security.oauth_granted",
        accountId,
        title: `${client} has access to ${handle}`,
        body: `You gave ${client} access to ${handle} as ${role}. If this was not you, end its access and change your password.`,
        metadata: { account: handle, clientId, role, grantId },
        dedupe: grantId,
      });
    }),
  ];
}

const nameOf = ({ displayName, email }: { displayName: string; email: string }) =>
  oneLine(displayName || email);
