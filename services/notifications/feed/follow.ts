import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type {
  FollowNotificationsRequest,
  NotificationEventSchema,
} from "../../../proto/gen/berth/notifications/v1/notifications_pb.ts";
import { type ChangeFeed, pause } from "../../kit/postgres/change-feed.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { parseEventId } from "../../kit/rpc/event-id.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";
import { type Arrival, countUnread, findMark, listArrivals, type Mark } from "./sql.ts";

/** The channel on which triggers notify, and the name of the session that listens. */
export const FOLLOW_CHANNEL = "notifications-follow";

/** The minimum time between two reads of a stream: a flood of changes is coalesced into a few reads. */
const COALESCE_MS = 200;
const BATCH = 200;

type Deps = { pool: Pool; changes: Pick<ChangeFeed, "signal"> };
type Event = MessageInitShape<typeof NotificationEventSchema>;

/** The progress of a stream: everything before `mark` was sent, and of what is newer, the ids in `sent`. */
type Progress = { mark: Mark; sent: Set<string> };

/**
 * Yields new notifications in the caller's feed, and the unread count when it changes (docs/notifications.md#stream).
 * The database is the source of truth: it is read again whenever its triggers signal a change by any process.
 */
export async function* followNotifications(
  { pool, changes }: Deps,
  { lastEventId }: FollowNotificationsRequest,
  ctx: HandlerContext,
): AsyncGenerator<Event> {
  const { signal } = ctx;
  const userId = who(ctx).caller.id;
  const [resumed] = parseEventId(lastEventId, /^(\d{1,16})$/);
  const changed = changes.signal(userId);
  try {
    let progress: Progress | undefined;
    let count: number | undefined;
    while (!signal.aborted) {
      const mark = await findMark(pool);
      progress ??= { mark: Math.min(resumed ?? mark, mark), sent: new Set() };
      yield* unsentArrivals(pool, userId, progress, mark);
      const now = await countUnread(pool, userId);
      if (now !== count) yield { id: String(mark), event: { case: "unread", value: { count: now } } };
      count = now;
      await pause(COALESCE_MS, signal);
      await changed.next(signal);
    }
  } finally {
    changed.close();
  }
  throw unavailable();
}

/** Yields what was not sent yet, and advances `progress` to `mark`. Nothing before an event's id is sent after it. */
async function* unsentArrivals(
  pool: Pool,
  userId: string,
  progress: Progress,
  mark: Mark,
): AsyncGenerator<Event> {
  const sent = new Set<string>();
  let after: Pick<Arrival, "at" | "id"> = { at: progress.mark, id: "" };
  for (;;) {
    const arrivals = await listArrivals(pool, userId, after, BATCH);
    for (const { id, kind, at } of arrivals) {
      if (at >= mark) sent.add(id);
      if (!progress.sent.has(id))
        yield { id: String(Math.min(at, mark)), event: { case: "notification", value: { id, kind } } };
    }
    if (arrivals.length < BATCH) break;
    after = arrivals.at(-1)!;
  }
  Object.assign(progress, { mark, sent });
}
