import pg from "pg";
import type { Logger } from "../kit/log.ts";
import { CHANNEL, OWNER_CLASS } from "./sql-work.ts";

const RETRY_MS = 1_000;

/**
 * A connection that stands for this process: it holds the advisory lock by which others see that the
 * owner of its leases lives, and calls `wake` when something is to be done. It connects again by itself;
 * meanwhile others may take the leases.
 */
export async function listenAsOwner(options: { url: string; owner: number; wake: () => void; log: Logger }) {
  const { url, owner, wake, log } = options;
  let stopped = false;
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;

  async function connect(): Promise<void> {
    const next = new pg.Client({
      connectionString: url,
      application_name: "deployer-leases",
      keepAlive: true,
    });
    client = next;
    let lost = false;
    const gone = () => {
      if (lost || stopped) return;
      lost = true;
      retry = setTimeout(() => void again(), RETRY_MS);
    };
    next.on("error", gone).on("end", gone).on("notification", wake);
    await next.connect();
    await next.query("select pg_advisory_lock($1::int, $2::int)", [OWNER_CLASS, owner]);
    const { rows } = await next.query<{ channel: string }>(`select ${CHANNEL} as channel`);
    await next.query(`listen "${rows[0]!.channel}"`);
    wake();
  }

  async function again(): Promise<void> {
    if (stopped) return;
    await connect().catch((error) => {
      log.warn({ err: error }, "the database does not answer");
      client?.removeAllListeners("end");
      void client?.end().catch(() => {});
      if (!stopped) retry = setTimeout(() => void again(), RETRY_MS);
    });
  }

  await connect();
  return {
    stop: async () => {
      stopped = true;
      clearTimeout(retry);
      await client?.end().catch(() => {});
    },
  };
}
