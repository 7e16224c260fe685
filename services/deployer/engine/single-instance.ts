import { retry } from "../../kit/concurrency/retry.ts";
import type { Logger } from "../../kit/log.ts";
import { keepSession } from "../../kit/postgres/session.ts";

/** Class of the advisory locks, one per schema, that the deployer holds which runs apps on its machine. */
const LOCK_CLASS = 1_111_839_317;
/** A predecessor that was killed holds its lock a moment longer. */
const PATIENCE_MS = 5_000;

/**
 * Makes this process the only deployer of its database that runs apps and addons itself: another one, with
 * a folder of its own, would start all of them a second time. Throws when another one is running. A lost session is
 * replaced, and the lock taken again, as soon as the database answers.
 */
export async function requireSingleInstance(options: { url: string; log: Logger; patienceMs?: number }) {
  const { url, log, patienceMs = PATIENCE_MS } = options;
  let warned = false;
  const lock = () =>
    keepSession({
      url,
      name: "deployer-only",
      async prepare(session) {
        const text = "select pg_try_advisory_lock($1::int, hashtext(current_schema())) as held";
        const { rows } = await session.query<{ held: boolean }>(text, [LOCK_CLASS]);
        if (!rows[0]!.held) throw new AnotherDeployer();
        warned = false;
      },
      failed(error) {
        if (warned || !(error instanceof AnotherDeployer)) return;
        warned = true;
        log.error("another deployer works on the same database");
      },
    });
  return retry(lock, {
    everyMs: 100,
    forMs: patienceMs,
    retryIf: (error) => error instanceof AnotherDeployer,
  });
}

class AnotherDeployer extends Error {
  constructor() {
    super(
      "Another deployer works on this database. A database can have only one that runs apps on its own machine.",
    );
  }
}
