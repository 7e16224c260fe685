import type { ChangeFeed } from "../../../kit/postgres/change-feed.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import type { Cursors } from "../../../kit/postgres/paging.ts";
import type { Runtime } from "../../runtime/port.ts";

export type StreamDeps = {
  pool: Pool;
  cursors: Cursors;
  changes: Pick<ChangeFeed, "signal">;
  runtime: Pick<Runtime, "logs" | "followLogs">;
};
