import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../../kit/log.ts";
import { sessionOpener } from "../../kit/postgres/session.ts";

/** Advisory locks of this class, one per schema, are held by the deployer that runs apps on its machine. */
const CLASS = 1_111_839_317;
/** A predecessor that was killed holds its lock a moment longer. */
const PATIENCE_MS = 5_000;
const RETRY_MS = 500;

/**
 * Makes this process the only deployer of its database that runs apps and addons itself: another one, with
 * a folder of its own, would start all of them a second time. Throws when there is one. When the connection
 * is lost the place is taken again as soon as the database answers.
 */
export async function beOnlyDeployer(options: { url: string; log: Logger; patienceMs?: number }) {
  const { url, log, patienceMs = PATIENCE_MS } = options;
  let stopped = false;
  const open = sessionOpener(url, "deployer-only");
  let client: pg.Client | undefined;

  /** Whether the place could be taken. */
  async function take(): Promise<boolean> {
    const next = await open();
    let held = false;
    try {
      const text = "select pg_try_advisory_lock($1::int, hashtext(current_schema())) as held";
      held = (await next.query<{ held: boolean }>(text, [CLASS])).rows[0]!.held;
      if (held && !stopped) client = next.once("end", () => void again());
    } finally {
      if (!held || stopped) await next.end().catch(() => {});
    }
    return held;
  }

  async function again(): Promise<void> {
    for (let warned = false; !stopped; ) {
      const held = await take().catch(() => undefined);
      if (held || stopped) return;
      if (held === false && !warned) log.error("another deployer works on this database as well");
      warned ||= held === false;
      await delay(RETRY_MS, undefined, { ref: false });
    }
  }

  for (const until = Date.now() + patienceMs; !(await take()); await delay(100)) {
    if (Date.now() < until) continue;
    throw new Error(
      "Another deployer works on this database. Of those that run apps on their own machine there can be one.",
    );
  }
  return {
    stop: async () => {
      stopped = true;
      await client?.end().catch(() => {});
    },
  };
}
