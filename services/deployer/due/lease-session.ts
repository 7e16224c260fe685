import type { Logger } from "../../kit/log.ts";
import { keepSession } from "../../kit/postgres/session.ts";
import { CHANNEL, OWNER_CLASS } from "./sql.ts";

/**
 * Keeps the session by whose advisory lock other processes see that the owner of this one's leases is alive, and calls
 * `wake` on each notification. While the session is lost, others may take the leases.
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
      if (failures === 1) log.warn({ err: error }, "the session that holds the leases is lost; reconnecting");
    },
  });
}
