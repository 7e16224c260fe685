import { atLeast, type RoleName } from "../../kit/rpc/caller-token.ts";

/**
 * The limits of a token: at most this role, only in this account. A member that is absent (in a message) or null (in a
 * row) does not limit.
 */
export type TokenScope = { roleCap?: RoleName | null | undefined; accountId?: string | null | undefined };

/** Returns whether a token of scope `holder` may do everything that one of scope `other` may. */
export function permits(holder: TokenScope, other: TokenScope): boolean {
  const account = holder.accountId == null || holder.accountId === other.accountId;
  const role = holder.roleCap == null || atLeast(holder.roleCap, other.roleCap ?? "owner");
  return account && role;
}
