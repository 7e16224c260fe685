import type { Client } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { coalesced } from "../../kit/concurrency/coalesce.ts";

/** A user who can be notified. */
export type Recipient = { userId: string; email: string; displayName: string; emailVerified: boolean };
export type Member = Recipient & { role: string };
/** The handle of an account, and its members. */
export type Account = { handle: string; members: Member[] };

export type Directory = ReturnType<typeof createDirectory>;

/** Looks up accounts with their members, and users, in identity, when an event is handled. */
export function createDirectory(identity: Client<typeof InternalService>) {
  const account = coalesced(async (accountId): Promise<Account> => {
    const { accountHandle, users } = await identity.listRecipients({ accountId });
    return { handle: accountHandle, members: users };
  });

  /** Returns users by id; those who do not exist or are disabled are missing. */
  async function users(...userIds: string[]): Promise<Recipient[]> {
    return (await identity.listRecipients({ userIds })).users;
  }

  /** Returns the first account, whose owners operate the installation, and them; undefined where there is none. */
  async function operators(): Promise<{ accountId: string; owners: Recipient[] } | undefined> {
    const { accountId, users: owners } = await identity.listOperators({});
    return accountId === "" ? undefined : { accountId, owners };
  }

  return {
    operators,
    /** Returns an account; one lookup serves events that arrive together, such as those of a deployment. */
    account,
    users,
    /** Returns a user; undefined for one who does not exist or is disabled. */
    user: async (userId: string): Promise<Recipient | undefined> =>
      userId === "" ? undefined : (await users(userId))[0],
  };
}
