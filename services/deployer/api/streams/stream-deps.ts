import type { ChangeFeed } from "../../../kit/postgres/change-feed.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import type { Cursors } from "../../../kit/postgres/paging.ts";
import type { LogReaders } from "../log-of.ts";

export type StreamDeps = LogReaders & {
  pool: Pool;
  cursors: Cursors;
  changes: Pick<ChangeFeed, "signal">;
};
