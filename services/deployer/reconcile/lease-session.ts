import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../../kit/log.ts";
import { sessionOpener } from "../../kit/postgres/session.ts";
import { CHANNEL, OWNER_CLASS } from "./sql.ts";

const RETRY_MS = 500;

/**
 * A connection that stands for this process: it holds the advisory lock by which others see that the
 * owner of its leases lives, and calls `wake` when something is to be done. It connects again by itself;
 * meanwhile others may take the leases.
 */
export async function listenAsOwner(options: { url: string; owner: number; wake: () => void; log: Logger }) {
  const { url, owner, wake, log } = options;
  let stopped = false;
  const open = sessionOpener(url, "deployer-leases");
  let client: pg.Client;

  async function connect(): Promise<void> {
    const next = await open();
    next.on("notification", wake);
    try {
      await next.query("select pg_advisory_lock($1::int, $2::int)", [OWNER_CLASS, owner]);
      const { rows } = await next.query<{ channel: string }>(`select ${CHANNEL} as channel`);
      await next.query(`listen "${rows[0]!.channel}"`);
    } catch (error) {
      await next.end().catch(() => {});
      throw error;
    }
    client = next.once("end", () => void again());
    wake();
  }

  async function again(): Promise<void> {
    for (let warned = false; !stopped; warned = true) {
      try {
        return await connect();
      } catch (error) {
        if (!warned) log.warn({ err: error }, "the database does not answer");
        await delay(RETRY_MS, undefined, { ref: false });
      }
    }
  }

  await connect();
  return {
    stop: async () => {
      stopped = true;
      await client.end().catch(() => {});
    },
  };
}
