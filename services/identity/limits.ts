import { atLeast, type RoleName } from "../kit/caller.ts";

/** How far a token reaches: at most this role, only in this account; an absent member does not limit. */
export type Limits = { roleCap?: RoleName | undefined; accountId?: string | undefined };

/** Whether whoever holds `holder` may do everything that `other` allows. */
export function covers(holder: Limits, other: Limits): boolean {
  const account = holder.accountId === undefined || holder.accountId === other.accountId;
  const role = holder.roleCap === undefined || atLeast(holder.roleCap, other.roleCap ?? "owner");
  return account && role;
}
