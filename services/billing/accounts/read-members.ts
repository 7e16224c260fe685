import type { Client } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";

/** Returns an account's handle (empty: there is no such account), how many members it has, and the e-mail of one of them. */
export type ReadMembers = (
  accountId: string,
  userId?: string,
) => Promise<{ handle: string; count: number; email: string }>;

export function createReadMembers(identity: Client<typeof InternalService>): ReadMembers {
  return async (accountId, userId) => {
    const { accountHandle, users } = await identity.listRecipients({ accountId });
    const email = users.find((user) => user.userId === userId)?.email ?? "";
    return { handle: accountHandle, count: users.length, email };
  };
}
