import type { Logger } from "../../kit/log.ts";
import { queueMails } from "../../kit/mail/mail.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import type { Directory } from "../recipients/directory.ts";
import { MAKE_DIGESTS } from "../tasks.ts";
import * as sql from "./sql.ts";
import { type Digest, windowKey } from "./windows.ts";

type Deps = { pool: Pool; directory: Directory; now: () => number };

/** The number of users for whom one transaction makes digests. */
const CHUNK = 500;

/** Makes digests when they are due, until stopped. Each run handles at most 500 users, so that stopping is quick. */
export function startDigests({ log, ...deps }: Deps & { log: Logger }) {
  const tick = async () => {
    await makeDigests(deps, "daily");
    await makeDigests(deps, "weekly");
  };
  return startTask(MAKE_DIGESTS, tick, { log });
}

/**
 * Makes the digests that are due, for at most 500 users, and queues their mails. Returns the number of users with items
 * due. A user gets one digest per window, however many replicas run this (docs/notifications.md#digests).
 */
export async function makeDigests({ pool, directory, now }: Deps, digest: Digest): Promise<number> {
  const at = now();
  const due = { weekly: digest === "weekly", now: new Date(at), window: windowKey(digest, at) };
  const userIds = await sql.listDueUsers(pool, { ...due, limit: CHUNK });
  if (userIds.length === 0) return 0;
  const users = (await directory.users(...userIds)).filter(({ emailVerified }) => emailVerified);
  const emails = new Map(users.map(({ userId, email }) => [userId, email]));
  const unreachable = userIds.filter((userId) => !emails.has(userId));
  await transaction(pool, async (tx) => {
    const made = await sql.insertDigests(tx, [...emails.keys()], due.window);
    await sql.fillDigests(
      tx,
      made.map(({ userId }) => userId),
      due,
    );
    await queueDigests(
      tx,
      made.map(({ id, userId }) => ({ id, digest, email: emails.get(userId)! })),
    );
    if (unreachable.length > 0) await sql.dropDue(tx, unreachable, due);
  });
  return userIds.length;
}

/** Queues the mails of digests. `digest` is undefined for items sent because the user switched to immediate. */
export function queueDigests(
  tx: Tx,
  digests: { id: string; email: string; digest?: Digest }[],
): Promise<number> {
  return queueMails(
    tx,
    digests.map(({ id, email, digest }) => ({
      kind: "digest",
      address: email,
      data: { digestId: id, ...(digest && { digest }) },
      queue: "bulk",
    })),
  );
}
