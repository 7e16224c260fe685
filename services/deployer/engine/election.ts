import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../../kit/log.ts";
import { keepSession } from "../../kit/postgres/session.ts";
import type { Running } from "../../kit/process/process.ts";
import { untilAborted } from "../shared/until-aborted.ts";

/** What a process runs for as long as it is the leader; another one each time. */
export type Term = {
  /** Makes it ready for work; resolves early when it is stopped. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

type ElectionOptions<T> = {
  url: string;
  log: Logger;
  begin: () => T;
  /** Asks what the leader decides about, as the API of a cluster; fails when that does not answer within the signal's time. */
  reach: (signal: AbortSignal) => Promise<unknown>;
  /** After how long without an answer of that the leader steps down. */
  unreachedMs?: number;
};

/** How often a candidate tries to become the leader. */
const CAMPAIGN_MS = 1_000;
const UNREACHED_MS = 30_000;

/**
 * Elects a leader among the processes that share a database, by an advisory lock that ends with its holder's session.
 * Whenever this process is elected it starts what `begin` returns and the work that was passed to `lead`, until the
 * session is lost or `stop` is called. A leader that cannot reach what it decides about steps down, and campaigns again
 * once it can. Resolves once another process is known to lead, or this one is ready to. A leader that was suspended, or
 * steps down, may overlap with the next one for a moment: its work must be fenced.
 */
export async function startElection<T extends Term>(options: ElectionOptions<T>) {
  const { url, log, begin, reach, unreachedMs = UNREACHED_MS } = options;
  const decided = Promise.withResolvers<void>();
  const work = Promise.withResolvers<(term: T) => Promise<Running>>();
  const stopping = new AbortController();
  let campaigning: Promise<unknown> = Promise.resolve();
  /** False from when this process stepped down until it can reach again what it would decide about. */
  let reachable = true;
  const pause = (ms: number, signal: AbortSignal) =>
    delay(ms, undefined, { signal, ref: false }).catch(() => {});
  const tryToReach = () => reach(AbortSignal.timeout(unreachedMs / 3));

  /** Tries to become the leader for as long as the session lives, and leads once it is. */
  async function campaign(session: pg.Client, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      if (!reachable)
        reachable = await tryToReach().then(
          () => true,
          () => false,
        );
      if (reachable && (await tryToLead(session))) {
        void stepDown(session, over);
        return serve(over);
      }
      if (reachable) decided.resolve();
      await pause(CAMPAIGN_MS, over);
    }
  }

  /** Ends the session once what the leader decides about has not answered for too long: another process may reach it. */
  async function stepDown(session: pg.Client, over: AbortSignal): Promise<void> {
    let failure: unknown;
    for (let last = performance.now(); performance.now() - last < unreachedMs; ) {
      await pause(unreachedMs / 6, over);
      if (over.aborted) return;
      try {
        await tryToReach();
        last = performance.now();
      } catch (error) {
        failure = error;
      }
    }
    reachable = false;
    log.warn(
      { err: failure },
      "what this process decides about cannot be reached from here; another may take over",
    );
    await session.end().catch(() => {});
  }

  /** Serves a term; resolves when it is over and all that it began has ended. */
  async function serve(over: AbortSignal): Promise<void> {
    log.info("this process was elected: it watches the cluster and decides");
    const term = begin();
    let running: Running | undefined;
    const begun = (async () => {
      await term.start();
      decided.resolve();
      const run = await Promise.race([work.promise, untilAborted(over)]);
      if (run && !over.aborted) running = await run(term);
    })();
    try {
      await Promise.race([begun.then(() => untilAborted(over)), untilAborted(over)]);
    } finally {
      // Ends a start that is under way.
      if (!running) await term.stop();
      await begun.catch(() => {});
      try {
        await running?.stop();
      } finally {
        await term.stop();
        log.info("this process is not the elected one any longer");
      }
    }
  }

  const session = await keepSession({
    url,
    name: "deployer-leader",
    async prepare(session) {
      const ended = new AbortController();
      session.once("end", () => ended.abort());
      const over = AbortSignal.any([stopping.signal, ended.signal]);
      // Once the term of the previous session has ended.
      campaigning = campaigning
        .then(() => campaign(session, over))
        .catch((err) => {
          if (!over.aborted) log.warn({ err }, "this process could not do what it was elected for; retrying");
          return session.end().catch(() => {});
        });
    },
    failed(error, failures) {
      if (failures === 1) log.warn({ err: error }, "the session of the election is lost; reconnecting");
    },
  });
  await decided.promise;

  const stop = async () => {
    stopping.abort();
    await campaigning;
    await session.stop();
  };
  return {
    /** Runs this work in each term of this process, with what the term provides. */
    lead(run: (term: T) => Promise<Running>): Running {
      work.resolve(run);
      return { stop };
    },
    stop,
  };
}

async function tryToLead(session: pg.Client): Promise<boolean> {
  const lock = "select pg_try_advisory_lock(hashtext('berth-deployer:' || current_schema())) as held";
  return (await session.query<{ held: boolean }>(lock)).rows[0]!.held;
}
