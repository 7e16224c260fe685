import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";
import { type Audience, catalogue, isKind, type Kind, type KindKey } from "../kinds/kinds.ts";
import type { Member, Recipient } from "./directory.ts";

/**
 * Returns the members of an account who receive a kind that is not about one user. `except` are the ids of the user who
 * acted and the user it is about, who are left out of `other_owners`. Pure.
 */
export function audienceOf(kind: KindKey, members: Member[], ...except: string[]): Recipient[] {
  const { audience }: Kind = catalogue[kind];
  if (audience === "user") throw new Error(`${kind} is about one user`);
  if (audience === "other_owners")
    return members.filter(({ role, userId }) => role === "owner" && !except.includes(userId));
  return members.filter(({ role }) => atLeast(role as RoleName, audience));
}

const AUDIENCES: Record<Audience, string> = {
  user: "the user it is about",
  reader: "all members of the account",
  editor: "editors and owners of the account",
  owner: "owners of the account",
  other_owners: "owners of the account, except the one who acted and the one it is about",
};

/** Describes who receives a stored kind, for users. */
export function describeAudience(kind: string): string {
  return isKind(kind) ? AUDIENCES[catalogue[kind].audience] : "the users that a newer version of Berth chose";
}
