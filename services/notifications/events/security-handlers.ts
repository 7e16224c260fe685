import {
  GrantCreatedSchema,
  GrantRevokedSchema,
  PasswordChangedSchema,
  TokenCreatedSchema,
  TokenRevokedSchema,
  UserSignedInSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { nameText, onTime, roleText, timeKey } from "../notices/text.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Announce } from "./announce.ts";

type About = Pick<Notice, "kind" | "title" | "body" | "dedupe"> & Partial<Notice>;

const NOT_YOU = "If this was not you, change your password and end all sessions that you do not recognise.";

/** Handlers of what concerns the security of one user. */
export function securityHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  async function toUser(userId: string, about: About): Promise<Notice[]> {
    const user = await directory.user(userId);
    return user ? [{ accountId: "", metadata: {}, ...about, recipients: [user] }] : [];
  }

  return [
    announce(UserSignedInSchema, async ({ userId, ip, newNetwork, sessionId, at }) =>
      newNetwork
        ? toUser(userId, {
            kind: "security.sign_in_new_device",
            title: `New sign-in from ${ip}`,
            body: `Somebody signed in as you${onTime(at)} from ${ip}, a network that you did not use in the last 30 days. ${NOT_YOU}`,
            metadata: { ip, sessionId },
            dedupe: sessionId,
          })
        : [],
    ),

    announce(PasswordChangedSchema, ({ userId, byLink, at }) =>
      toUser(userId, {
        kind: "security.password_changed",
        title: "Your password was changed",
        body: `It was changed${onTime(at)}${byLink ? " with a link that was mailed to you" : ""}. ${byLink ? "All" : "All other"} sessions have ended. If this was not you, request a link to set a new password, and secure your mailbox.`,
        dedupe: timeKey(at),
      }),
    ),

    announce(TokenCreatedSchema, ({ userId, tokenId, name }) =>
      toUser(userId, {
        kind: "security.token_created",
        title: `API token created: ${nameText(name)}`,
        body: "It can do everything that you can, within its limits. If you did not create it, revoke it at /me/tokens and change your password.",
        metadata: { tokenId, name: nameText(name) },
        dedupe: tokenId,
      }),
    ),

    // Sessions end without a notice.
    announce(TokenRevokedSchema, async ({ userId, tokenId, name, personalTokens, at }) => {
      if (personalTokens === 0 && name === "") return [];
      const one = tokenId !== "";
      return toUser(userId, {
        kind: "security.token_revoked",
        title: one ? `API token revoked: ${nameText(name)}` : tokensRevoked(personalTokens),
        body: `Programs that still use ${one ? "it" : "them"} are refused. If you did not revoke ${one ? "it" : "them"}, change your password.`,
        metadata: one ? { tokenId, name: nameText(name) } : { tokens: String(personalTokens) },
        dedupe: one ? tokenId : timeKey(at),
      });
    }),

    announce(GrantCreatedSchema, async ({ userId, accountId, grantId, clientId, clientName, role }) => {
      const { handle } = await directory.account(accountId);
      const client = nameText(clientName || clientId);
      return toUser(userId, {
        kind: "security.oauth_granted",
        accountId,
        title: `${client} has access to ${handle}`,
        body: `You gave ${client} access to ${handle}, as ${roleText(role)}. If this was not you, revoke its access at /me/mcp-grants and change your password.`,
        metadata: { account: handle, clientId, role, grantId },
        dedupe: grantId,
      });
    }),

    announce(GrantRevokedSchema, async (event) => {
      const { userId, clientId, clientName, accountId, grantId, reason, at } = event;
      const client = clientName === "" ? "An application" : nameText(clientName);
      // One request of the user or of an owner ends all grants of a client, all with the same time.
      const all = reason === "user" || reason === "claimed";
      const { handle } = all || accountId === "" ? { handle: "" } : await directory.account(accountId);
      return toUser(userId, {
        kind: "security.oauth_revoked",
        accountId: handle && accountId,
        title: `${client} no longer has access${handle && ` to ${handle}`}`,
        body: `${(ENDS[reason] ?? ENDS.unknown)!(client)} Its tokens are refused from now on.`,
        metadata: { clientId, ...(reason && { reason }), ...(handle && { account: handle }) },
        dedupe: all || reason === "owner" ? `${clientId}:${timeKey(at)}` : grantId || clientId,
      });
    }),
  ];
}

function tokensRevoked(count: number): string {
  return count === 1 ? "Your API token was revoked" : `Your ${count} API tokens were revoked`;
}

const ENDS: Record<string, (client: string) => string> = {
  user: (client) => `You revoked the access of ${client}. If this was not you, change your password.`,
  newer: (client) => `It was replaced by access that you gave ${client} later.`,
  claimed: (client) =>
    `The access of ${client} ended because your password was set with a link that was mailed to you.`,
  owner: (client) => `An owner of the account revoked the access that you gave ${client}.`,
  account: (client) => `The account that you gave ${client} access to was deleted.`,
  client: (client) => `${client} gave up its access.`,
  reuse: (client) =>
    `A code or token of ${client} was used twice, which can mean that somebody stole it. Check the audit log for what the application did. If you still need it, give it access again.`,
  unknown: () => "Its access has ended.",
};
