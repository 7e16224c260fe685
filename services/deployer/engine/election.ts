import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../../kit/log.ts";
import { keepSession } from "../../kit/postgres/session.ts";
import type { Running } from "../../kit/process/process.ts";
import { untilAborted } from "../shared/until-aborted.ts";

/** What a process has for as long as it is elected; another one each time. */
export type Term = {
  /** Makes it ready for work; resolves early when it is stopped. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

type ElectionOptions<T> = {
  url: string;
  log: Logger;
  begin: () => T;
  /** Asks what the work is about, as a cluster; fails when that cannot be reached, within the signal's time. */
  reach: (signal: AbortSignal) => Promise<unknown>;
  /** For so long the elected one may not reach that until it makes way for another. */
  unreachedMs?: number;
};

/** How often a process that waits asks whether it may take over. */
const ASK_MS = 1_000;
const UNREACHED_MS = 30_000;

/**
 * Elects one of the processes that share a database by an advisory lock, which ends with its holder's session. Whenever
 * this one is elected it starts what `begin` returns and does the work that `lead` gave, until the session is lost or
 * `stop` is called. One that cannot reach what it decides about makes way, and stands again when it can. Resolves once
 * another process is known to lead, or this one is ready to. One that was suspended, or makes way, goes on for a moment
 * meanwhile: its work must be fenced.
 */
export async function startElection<T extends Term>(options: ElectionOptions<T>) {
  const { url, log, begin, reach, unreachedMs = UNREACHED_MS } = options;
  const decided = Promise.withResolvers<void>();
  const given = Promise.withResolvers<(term: T) => Promise<Running>>();
  const stopping = new AbortController();
  let standing: Promise<unknown> = Promise.resolve();
  /** False from when this process made way until it reaches again what it would decide about. */
  let reached = true;
  const pause = (ms: number, signal: AbortSignal) =>
    delay(ms, undefined, { signal, ref: false }).catch(() => {});
  const tryToReach = () => reach(AbortSignal.timeout(unreachedMs / 3));

  /** Stands for election for as long as the session lives. */
  async function stand(session: pg.Client, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      if (!reached)
        reached = await tryToReach().then(
          () => true,
          () => false,
        );
      if (reached && (await tryToLead(session))) {
        void makeWay(session, over);
        return serve(over);
      }
      if (reached) decided.resolve();
      await pause(ASK_MS, over);
    }
  }

  /** Ends the session when what the elected one decides about cannot be reached any longer: another may reach it. */
  async function makeWay(session: pg.Client, over: AbortSignal): Promise<void> {
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
    reached = false;
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
      const work = await Promise.race([given.promise, untilAborted(over)]);
      if (work && !over.aborted) running = await work(term);
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
      // After what was begun in the session before.
      standing = standing
        .then(() => stand(session, over))
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
    await standing;
    await session.stop();
  };
  return {
    /** Does this work in each term of this process, with what the term has. */
    lead(work: (term: T) => Promise<Running>): Running {
      given.resolve(work);
      return { stop };
    },
    stop,
  };
}

async function tryToLead(session: pg.Client): Promise<boolean> {
  const lock = "select pg_try_advisory_lock(hashtext('berth-deployer:' || current_schema())) as held";
  return (await session.query<{ held: boolean }>(lock)).rows[0]!.held;
}
