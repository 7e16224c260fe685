import type { IncomingMessage } from "node:http";

/** How many uploads may run at once, and how slow one may be. */
export type UploadLimits = {
  atOnce: number;
  /** More than one, because a client that lost its connection retries before the loss is noticed. */
  perUrl: number;
  /** For one account. */
  perOwner: number;
  minBytesPerSecond: number;
  /** How long an upload may stay below that rate. */
  stallMs: number;
  totalMs: number;
};

export const defaultUploadLimits: UploadLimits = {
  atOnce: 64,
  perUrl: 2,
  perOwner: 8,
  minBytesPerSecond: 8 * 1024,
  stallMs: 30_000,
  totalMs: 900_000,
};

/** What `totalMs` is for: the largest archive. */
const ARCHIVE_BYTES = 500 * 1024 ** 2;

/** Returns the limits of an upload that may have so many bytes: what may be larger may take longer. */
export function paceOf(limits: UploadLimits, maxBytes: number): UploadLimits {
  return { ...limits, totalMs: limits.totalMs * Math.max(1, maxBytes / ARCHIVE_BYTES) };
}

/** An upload was too slow. `message` names the required speed. */
export class TooSlow extends Error {}

/**
 * Yields the body of an upload. Throws `TooSlow` when the client is too slow; time in which the reader asks for nothing,
 * as when the disk is slow, counts towards `totalMs` only.
 */
export async function* enforcePace(req: IncomingMessage, limits: UploadLimits): AsyncGenerator<Buffer> {
  const { minBytesPerSecond, stallMs, totalMs } = limits;
  // When the reader stops early, the connection has to stay open for the answer.
  const chunks = req.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  const startedAt = performance.now();
  try {
    for (let patience = stallMs; ; ) {
      const asked = performance.now();
      const left = startedAt + totalMs - asked;
      const { done, value } = await rejectAfter(Math.min(patience, left), chunks.next(), limits);
      if (done) return;
      const earned = (value.length / minBytesPerSecond) * 1000;
      patience = Math.min(stallMs, patience - (performance.now() - asked) + earned);
      yield value;
    }
  } finally {
    // Not awaited: it resolves after the next chunk, which may never arrive.
    chunks.return?.().catch(() => {});
  }
}

async function rejectAfter<T>(ms: number, next: Promise<T>, limits: UploadLimits): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new TooSlow(tooSlowMessage(limits))), Math.max(0, ms));
  next.catch(() => {}); // after the time is over, nothing handles its rejection
  try {
    return await Promise.race([next, late]);
  } finally {
    clearTimeout(timer);
  }
}

function tooSlowMessage({ minBytesPerSecond, totalMs }: UploadLimits): string {
  return `The upload was too slow: send at least ${minBytesPerSecond} bytes per second and all of it within ${totalMs / 1000} s.`;
}

/** Counts the transfers in progress: uploads, or downloads. */
export function createSlots({
  atOnce,
  perUrl,
  perOwner,
}: Pick<UploadLimits, "atOnce" | "perUrl" | "perOwner">) {
  const urls = new Map<string, number>();
  const owners = new Map<string, number>();
  let all = 0;
  const add = (counts: Map<string, number>, name: string, change: 1 | -1) => {
    const count = (counts.get(name) ?? 0) + change;
    if (count > 0) counts.set(name, count);
    else counts.delete(name);
  };

  return {
    /** Takes a slot; returns the function that frees it, or the limit that is reached. */
    take(url: string, owner: string): (() => void) | "url" | "owner" | "all" {
      if ((urls.get(url) ?? 0) >= perUrl) return "url";
      if ((owners.get(owner) ?? 0) >= perOwner) return "owner";
      if (all >= atOnce) return "all";
      const count = (change: 1 | -1) => {
        all += change;
        add(urls, url, change);
        add(owners, owner, change);
      };
      count(1);
      return () => count(-1);
    },
  };
}

export type UploadSlots = ReturnType<typeof createSlots>;
