import type { Client } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { coalesced } from "../../kit/coalesce.ts";
import { oneLine } from "../../kit/mail/mail.ts";
import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";
import { type Audience, catalogue, type Kind, type KindKey } from "../catalog/kinds.ts";
import { nameText } from "./text.ts";

/** A user who can be told of something. */
export type Recipient = { userId: string; email: string; displayName: string; emailVerified: boolean };
export type Member = Recipient & { role: string };
/** An account as messages name it, and its members. */
export type Account = { handle: string; members: Member[] };

/** Returns who of an account gets a kind that is not about one user; `but` did it, or is whom it is about. Pure. */
export function audienceOf(kind: KindKey, members: Member[], ...but: string[]): Recipient[] {
  const { audience }: Kind = catalogue[kind];
  if (audience === "user") throw new Error(`${kind} is about one user`);
  if (audience === "other_owners")
    return members.filter(({ role, userId }) => role === "owner" && !but.includes(userId));
  return members.filter(({ role }) => atLeast(role as RoleName, audience));
}

const AUDIENCES: Record<Audience, string> = {
  user: "the user it is about",
  reader: "all members of the account",
  editor: "editors and owners of the account",
  owner: "owners of the account",
  other_owners: "owners of the account, but for who did it and whom it is about",
};

/** Returns who gets a kind, in words. */
export function describeAudience(kind: KindKey): string {
  return AUDIENCES[(catalogue[kind] as Kind).audience];
}

export type Directory = ReturnType<typeof createDirectory>;

/** Finds accounts with their members, and users, by asking identity, at the time of the event. */
export function createDirectory(identity: Client<typeof InternalService>) {
  const account = coalesced(async (accountId): Promise<Account> => {
    const { accountHandle, users } = await identity.listRecipients({ accountId });
    return { handle: accountHandle, members: users };
  });

  /** Returns users by id; those who do not exist or are disabled are missing. */
  async function users(...userIds: string[]): Promise<Recipient[]> {
    return (await identity.listRecipients({ userIds })).users;
  }

  return {
    /** Returns an account; asked once for events that arrived together, such as those of a deployment. */
    account,
    users,
    /** Returns a user; undefined for one who does not exist or is disabled. */
    user: async (userId: string): Promise<Recipient | undefined> =>
      userId === "" ? undefined : (await users(userId))[0],
  };
}

/** Returns the name of a user for messages; what `unknown` says for one who is gone or not known. */
export function nameOf(user: Recipient | undefined, unknown = "Somebody"): string {
  if (!user) return unknown;
  return user.displayName ? nameText(user.displayName) : oneLine(user.email);
}
