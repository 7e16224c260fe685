import type { Client } from "@connectrpc/connect";
import { LRUCache } from "lru-cache";
import type { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";
import { type Audience, catalogue, type Kind, type KindKey } from "../catalog/kinds.ts";

/** A user who can be told of something. */
export type Recipient = { userId: string; email: string; displayName: string; emailVerified: boolean };
export type Member = Recipient & { role: string };
/** An account as messages name it, and its members. */
export type Account = { handle: string; members: Member[] };

/** Many events of one account often come together, such as those of a deployment. */
const REMEMBERED_MS = 2_000;

/** Returns who of an account gets a kind that is not about one user; pure. */
export function audienceOf(kind: KindKey, members: Member[]): Recipient[] {
  const { audience }: Kind = catalogue[kind];
  if (audience === "user") throw new Error(`${kind} is about one user`);
  return members.filter(({ role }) => atLeast(role as RoleName, audience));
}

const AUDIENCES: Record<Audience, string> = {
  user: "the user it is about",
  reader: "all members of the account",
  editor: "editors and owners of the account",
  owner: "owners of the account",
};

/** Returns who gets a kind, in words. */
export function describeAudience(kind: KindKey): string {
  return AUDIENCES[(catalogue[kind] as Kind).audience];
}

export type Directory = ReturnType<typeof createDirectory>;

/** Finds accounts, members and users by asking identity, at the time of the event. */
export function createDirectory(identity: Client<typeof InternalService>) {
  const accounts = new LRUCache<string, Promise<Account>>({ max: 1_000, ttl: REMEMBERED_MS });

  async function ask(accountId: string): Promise<Account> {
    const { accountHandle, users } = await identity.listRecipients({ accountId });
    return { handle: accountHandle, members: users };
  }

  return {
    account(accountId: string): Promise<Account> {
      const known = accounts.get(accountId);
      if (known) return known;
      const asked = ask(accountId);
      accounts.set(accountId, asked);
      asked.catch(() => accounts.delete(accountId));
      return asked;
    },
    /** Returns users by id; those who do not exist or are disabled are missing. */
    async users(...userIds: string[]): Promise<Recipient[]> {
      return (await identity.listRecipients({ userIds })).users;
    },
  };
}
