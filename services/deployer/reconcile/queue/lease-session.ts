import type { Logger } from "../../../kit/log.ts";
import { keepSession } from "../../../kit/postgres/session.ts";
import { CHANNEL, OWNER_CLASS } from "./sql.ts";

/**
 * Keeps the session that stands for this process: it holds the advisory lock by which others see that the
 * owner of its leases lives, and calls `wake` when something is to be done. While it is lost, others may
 * take the leases.
 */
export function startLeaseSession(options: { url: string; owner: number; wake: () => void; log: Logger }) {
  const { url, owner, wake, log } = options;
  return keepSession({
    url,
    name: "deployer-leases",
    async prepare(session) {
      session.on("notification", wake);
      await session.query("select pg_advisory_lock($1::int, $2::int)", [OWNER_CLASS, owner]);
      const { rows } = await session.query<{ channel: string }>(`select ${CHANNEL} as channel`);
      await session.query(`listen "${rows[0]!.channel}"`);
      wake();
    },
    failed(error, failures) {
      if (failures === 1) log.warn({ err: error }, "the database does not answer");
    },
  });
}
