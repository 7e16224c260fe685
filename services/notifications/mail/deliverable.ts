import type { Pool } from "../../kit/postgres/db.ts";
import { catalogue, type Kind, type KindKey } from "../kinds/kinds.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import { dropOfAccount } from "./sql.ts";
import { isSuppressed } from "./suppressions-sql.ts";

type Deps = { pool: Pool; directory: Directory };
type Addressed = { userId: string; accountId: string; kind: KindKey };

/**
 * Returns the reason code for which a mail must no longer be sent; undefined when it may be. What concerns only the user
 * is sent even if the user has since been disabled or deleted.
 */
export async function reasonNotToSend(
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
 * Like `reasonNotToSend`, for a digest; for a bundle, with its kind. Drops items about accounts that its user can no longer
 * access.
 */
export async function reasonNotToSendDigest(
  { pool, directory }: Deps,
  digestId: string,
  { userId, accountIds, kind }: { userId: string; accountIds: string[]; kind?: KindKey },
  address: string,
): Promise<string | undefined> {
  const [user] = await directory.users(userId);
  if (!user) return "user_gone";
  for (const accountId of accountIds) {
    const { members } = await directory.account(accountId);
    const recipients = kind ? audienceOf(kind, members) : members;
    if (!recipients.some((one) => one.userId === userId)) await dropOfAccount(pool, digestId, accountId);
  }
  return (await isSuppressed(pool, address)) ? "suppressed" : undefined;
}
