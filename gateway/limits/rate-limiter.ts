import type { Logger } from "../../services/kit/log.ts";
import { type Problem, problem } from "../http/problem.ts";
import type { RateLimitState } from "../http/response.ts";
import type { BucketName } from "../routing/routes.ts";

/** Requests per minute, or per day, for each bucket; 0 switches a bucket off. */
export type Limits = Record<BucketName, number>;

export type Count = { subject: string; count: number; windowMs: number };

/** A subject's count over all gateways, as the shared store has it after adding, and when its window ends. */
export type Total = { subject: string; used: number; endsInMs: number };

type Meter = {
  subject: string;
  limit: number;
  windowMs: number;
  /** Requests of all gateways in this window, as the store last reported. */
  used: number;
  /** This gateway's requests that are not in the store yet. */
  unreported: number;
  endsAt: number;
  report: Promise<void> | undefined;
};

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

const windowOf = (bucket: BucketName) => (bucket === "registrationsDaily" ? DAY_MS : MINUTE_MS);

const FLUSH_MS = 250;
const MAX_METERS = 50_000;

/** Returns how many requests a gateway may admit before they are in the store: 5 % of the limit, at least 1. */
export const slack = (limit: number): number => Math.max(1, Math.floor(limit / 20));

export type RateLimiter = ReturnType<typeof createRateLimiter>;

/** Returns the 429 of a request over a limit; undefined for one that is within it, or without one. */
export function tooManyRequests(rate: RateLimitState | undefined, what = "requests"): Problem | undefined {
  if (!rate || rate.allowed) return undefined;
  const { limit, per, resetSeconds } = rate;
  const message = `Too many ${what}: ${limit} a ${per} are allowed. Try again in ${resetSeconds} s.`;
  return problem(429, "rate_limited", message, { retryAfter: resetSeconds });
}

/**
 * Counts requests per subject and minute, or day, together with all other gateways. Counts are reported to the store in
 * the background, many subjects in one statement, so that a request waits for the store only when `slack`
 * requests of its subject are unreported. N gateways together admit at most limit + N × slack requests a minute,
 * one gateway exactly the limit (docs/conventions.md#rate-limits). While the store is unreachable each counts alone.
 */
export function createRateLimiter(options: {
  limits: Limits;
  /** Adds counts in one statement and returns the totals. */
  add: (counts: Count[]) => Promise<Total[]>;
  log: Logger;
  now?: () => number;
}) {
  const { limits, add, log, now = performance.now.bind(performance) } = options;
  const meters = new Map<string, Meter>();
  const unreportedMeters = new Set<Meter>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let queued: Promise<void> | undefined;
  let storeUnreachable = false;

  const subjectOf = (bucket: BucketName, who: string) => `${bucket} ${who}`;
  const isFull = (meter: Meter) => meter.used + meter.unreported >= meter.limit;

  function meterOf(bucket: BucketName, who: string, times: number): Meter {
    const subject = subjectOf(bucket, who);
    const found = meters.get(subject);
    const at = now();
    if (found && found.endsAt > at) return found;
    const [limit, windowMs] = [limits[bucket] * times, windowOf(bucket)];
    const counts = { used: 0, unreported: 0, endsAt: at + windowMs, report: undefined };
    const fresh = { subject, limit, windowMs, ...counts };
    if (!found && meters.size >= MAX_METERS) dropOldest();
    meters.set(subject, fresh);
    return fresh;
  }

  function dropOldest(): void {
    const [subject, meter] = meters.entries().next().value!;
    meters.delete(subject);
    unreportedMeters.delete(meter);
  }

  const stateOf = (meter: Meter, allowed: boolean): RateLimitState => ({
    allowed,
    limit: meter.limit,
    per: meter.windowMs === DAY_MS ? "day" : "minute",
    remaining: Math.max(0, meter.limit - meter.used - meter.unreported),
    resetSeconds: Math.max(1, Math.ceil((meter.endsAt - now()) / 1000)),
  });

  async function report(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    const at = now();
    const batch = [...unreportedMeters]
      .filter((meter) => meter.endsAt > at)
      .map((meter) => {
        const { subject, windowMs, unreported: count } = meter;
        return { meter, subject, windowMs, count };
      });
    unreportedMeters.clear();
    if (batch.length === 0) return;
    const totals = await addToStore(batch);
    for (const { meter, count } of batch) {
      const total = totals?.get(meter.subject);
      meter.unreported -= count;
      meter.used = total ? total.used : meter.used + count;
      if (total) meter.endsAt = now() + total.endsInMs;
    }
  }

  async function addToStore(counts: Count[]): Promise<Map<string, Total> | undefined> {
    try {
      const totals = await add(counts);
      storeUnreachable = false;
      return new Map(totals.map((total) => [total.subject, total]));
    } catch (error) {
      if (!storeUnreachable) log.warn({ err: error }, "this gateway counts rate limits on its own");
      storeUnreachable = true;
      return undefined;
    }
  }

  /** Reports all unreported counts, one statement at a time. */
  function reportNow(): Promise<void> {
    if (running) {
      queued ??= running.then(() => {
        queued = undefined;
        return reportNow();
      });
      return queued;
    }
    running = report().finally(() => {
      running = undefined;
    });
    return running;
  }

  function admit(meter: Meter): RateLimitState {
    meter.unreported++;
    unreportedMeters.add(meter);
    const enough = Math.ceil(slack(meter.limit) / 2);
    if (meter.unreported >= enough && !meter.report)
      meter.report = reportNow().finally(() => {
        meter.report = undefined;
      });
    else timer ??= setTimeout(reportNow, FLUSH_MS).unref();
    return stateOf(meter, true);
  }

  async function admitLater(bucket: BucketName, who: string, times: number): Promise<RateLimitState> {
    for (;;) {
      const meter = meterOf(bucket, who, times);
      if (isFull(meter)) return stateOf(meter, false);
      if (meter.unreported < slack(meter.limit)) return admit(meter);
      await (meter.report ?? reportNow());
    }
  }

  return {
    /**
     * Returns the limit of a subject that has used it up, as far as this gateway knows; counts nothing, as for requests
     * that count once they failed.
     */
    usedUp(bucket: BucketName, who: string): RateLimitState | undefined {
      const meter = meters.get(subjectOf(bucket, who));
      return meter && meter.endsAt > now() && isFull(meter) ? stateOf(meter, false) : undefined;
    },
    /**
     * Counts one request of a subject unless it is over its limit: `times` the bucket's. Returns undefined for a bucket
     * without a limit.
     */
    consume(
      bucket: BucketName,
      who: string,
      times = 1,
    ): RateLimitState | undefined | Promise<RateLimitState> {
      if (limits[bucket] * times === 0) return undefined;
      const meter = meterOf(bucket, who, times);
      if (isFull(meter)) return stateOf(meter, false);
      return meter.unreported < slack(meter.limit) ? admit(meter) : admitLater(bucket, who, times);
    },
    /** Reports all unreported counts. */
    stop: () => reportNow(),
  };
}
