import type { Logger } from "../../services/kit/log.ts";
import type { BucketName } from "../routing/routes.ts";

/** Requests per minute for each bucket; 0 switches a bucket off. */
export type Limits = Record<BucketName, number>;

export type Verdict = { allowed: boolean; limit: number; remaining: number; resetSeconds: number };

export type Count = { subject: string; count: number };

/** What the shared store says of a subject after adding: all gateways' count, and when its minute ends. */
export type Total = { subject: string; used: number; endsInMs: number };

type Meter = {
  subject: string;
  limit: number;
  /** All gateways' requests of this minute, as of the last answer of the store. */
  used: number;
  /** Own requests that the store has not been told of. */
  untold: number;
  endsAt: number;
  told: Promise<void> | undefined;
};

export const WINDOW_MS = 60_000;
const FLUSH_MS = 250;
const MAX_METERS = 50_000;

/** How many requests a gateway may admit before the store has heard of them: 5 % of the limit, at least 1. */
export const slack = (limit: number): number => Math.max(1, Math.floor(limit / 20));

export type RateLimiter = ReturnType<typeof createRateLimiter>;

/**
 * Counts requests per subject and minute together with all other gateways. The count is kept here and
 * told to the store in the background, many subjects in one statement, so a request waits for the store
 * only when `slack` requests of its subject are untold. N gateways together admit at most
 * limit + N × slack requests a minute; one gateway alone admits exactly the limit. While the store is
 * away each gateway counts for itself.
 */
export function createRateLimiter(options: {
  limits: Limits;
  /** Adds counts in one statement, and gives the totals. */
  add: (counts: Count[]) => Promise<Total[]>;
  log: Logger;
  now?: () => number;
}) {
  const { limits, add, log, now = performance.now.bind(performance) } = options;
  const meters = new Map<string, Meter>();
  const waiting = new Set<Meter>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let queued: Promise<void> | undefined;
  let away = false;

  function meterOf(bucket: BucketName, who: string): Meter {
    const subject = `${bucket} ${who}`;
    const found = meters.get(subject);
    const at = now();
    if (found && found.endsAt > at) return found;
    const limit = limits[bucket];
    const fresh = { subject, limit, used: 0, untold: 0, endsAt: at + WINDOW_MS, told: undefined };
    if (!found && meters.size >= MAX_METERS) forgetOldest();
    meters.set(subject, fresh);
    return fresh;
  }

  function forgetOldest(): void {
    const [subject, meter] = meters.entries().next().value!;
    meters.delete(subject);
    waiting.delete(meter);
  }

  const verdict = (meter: Meter, allowed: boolean): Verdict => ({
    allowed,
    limit: meter.limit,
    remaining: Math.max(0, meter.limit - meter.used - meter.untold),
    resetSeconds: Math.max(1, Math.ceil((meter.endsAt - now()) / 1000)),
  });

  async function tell(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    const at = now();
    const batch = [...waiting]
      .filter((meter) => meter.endsAt > at)
      .map((meter) => ({ meter, subject: meter.subject, count: meter.untold }));
    waiting.clear();
    if (batch.length === 0) return;
    const totals = await ask(batch);
    for (const { meter, count } of batch) {
      const total = totals?.get(meter.subject);
      meter.untold -= count;
      meter.used = total ? total.used : meter.used + count;
      if (total) meter.endsAt = now() + total.endsInMs;
    }
  }

  async function ask(counts: Count[]): Promise<Map<string, Total> | undefined> {
    try {
      const totals = await add(counts);
      away = false;
      return new Map(totals.map((total) => [total.subject, total]));
    } catch (error) {
      if (!away) log.warn({ err: error }, "rate limits are counted by this gateway alone");
      away = true;
      return undefined;
    }
  }

  /** Tells the store everything that is untold by now, in one statement at a time. */
  function tellNow(): Promise<void> {
    if (running) {
      queued ??= running.then(() => {
        queued = undefined;
        return tellNow();
      });
      return queued;
    }
    running = tell().finally(() => {
      running = undefined;
    });
    return running;
  }

  function admit(meter: Meter): Verdict {
    meter.untold++;
    waiting.add(meter);
    const enough = Math.ceil(slack(meter.limit) / 2);
    if (meter.untold >= enough && !meter.told)
      meter.told = tellNow().finally(() => {
        meter.told = undefined;
      });
    else timer ??= setTimeout(tellNow, FLUSH_MS).unref();
    return verdict(meter, true);
  }

  async function admitLater(bucket: BucketName, who: string): Promise<Verdict> {
    for (;;) {
      const meter = meterOf(bucket, who);
      if (meter.used + meter.untold >= meter.limit) return verdict(meter, false);
      if (meter.untold < slack(meter.limit)) return admit(meter);
      await (meter.told ?? tellNow());
    }
  }

  return {
    /** Counts one request of a subject. Undefined when its bucket has no limit. */
    take(bucket: BucketName, who: string): Verdict | undefined | Promise<Verdict> {
      if (limits[bucket] === 0) return undefined;
      const meter = meterOf(bucket, who);
      if (meter.used + meter.untold >= meter.limit) return verdict(meter, false);
      return meter.untold < slack(meter.limit) ? admit(meter) : admitLater(bucket, who);
    },
    /** Tells the store what it has not heard yet. */
    stop: () => tellNow(),
  };
}
