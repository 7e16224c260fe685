import type { Pool } from "../../kit/postgres/db.ts";
import { catalogue, type Kind, type KindKey } from "../catalog/kinds.ts";
import { audienceOf, type Directory } from "../notices/recipients.ts";
import { dropOfAccount, isSuppressed } from "./sql.ts";

type Deps = { pool: Pool; directory: Directory };
type Addressed = { userId: string; accountId: string; kind: KindKey };

/**
 * Returns why a mail must not go out by now, in a word; undefined when it may. What concerns a user alone is sent
 * whatever became of the user since.
 */
export async function whyNotSent(
  { pool, directory }: Deps,
  { userId, accountId, kind }: Addressed,
  address: string,
): Promise<string | undefined> {
  if ((catalogue[kind] as Kind).audience !== "user") {
    const [user] = await directory.users(userId);
    if (!user) return "user_gone";
    if (accountId && !(await hasAccess(directory, { userId, accountId, kind }))) return "no_access";
  }
  return (await isSuppressed(pool, address)) ? "suppressed" : undefined;
}

async function hasAccess(directory: Directory, { userId, accountId, kind }: Addressed): Promise<boolean> {
  const { members } = await directory.account(accountId);
  return audienceOf(kind, members).some((one) => one.userId === userId);
}

/**
 * As `whyNotSent`, for a digest; of a bundle with its kind. Drops from it what is about accounts to which its user lost
 * access.
 */
export async function whyNoDigest(
  { pool, directory }: Deps,
  digestId: string,
  { userId, accountIds, kind }: { userId: string; accountIds: string[]; kind?: KindKey },
  address: string,
): Promise<string | undefined> {
  const [user] = await directory.users(userId);
  if (!user) return "user_gone";
  for (const accountId of accountIds) {
    const { members } = await directory.account(accountId);
    const told = kind ? audienceOf(kind, members) : members;
    if (!told.some((one) => one.userId === userId)) await dropOfAccount(pool, digestId, accountId);
  }
  return (await isSuppressed(pool, address)) ? "suppressed" : undefined;
}
