import type { IncomingMessage } from "node:http";

/** How many uploads there may be at once, and how slow one may be. */
export type UploadLimits = {
  atOnce: number;
  /** A client that lost its connection tries again before the first is known to be gone. */
  perUrl: number;
  /** Of one account. */
  perOwner: number;
  minBytesPerSecond: number;
  /** How long it may send less than that, or nothing. */
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

/** An upload was slower than it may be. `message` says to the client how fast it has to be. */
export class TooSlow extends Error {}

/**
 * The body of an upload. Throws `TooSlow` when the client does not keep up; the time in which nobody asks for
 * more counts only towards the whole.
 */
export async function* paced(req: IncomingMessage, limits: UploadLimits): AsyncGenerator<Buffer> {
  const { minBytesPerSecond, stallMs, totalMs } = limits;
  // When the body is not wanted any more the connection stays, for the answer.
  const chunks = req.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  const begun = performance.now();
  try {
    for (let patience = stallMs; ; ) {
      const asked = performance.now();
      const left = begun + totalMs - asked;
      const { done, value } = await within(Math.min(patience, left), chunks.next(), limits);
      if (done) return;
      const earned = (value.length / minBytesPerSecond) * 1000;
      patience = Math.min(stallMs, patience - (performance.now() - asked) + earned);
      yield value;
    }
  } finally {
    // Not waited for: it comes after a chunk that may never come.
    chunks.return?.().catch(() => {});
  }
}

async function within<T>(ms: number, next: Promise<T>, limits: UploadLimits): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new TooSlow(sentence(limits))), Math.max(0, ms));
  next.catch(() => {}); // nobody waits for it any more when the time is over
  try {
    return await Promise.race([next, late]);
  } finally {
    clearTimeout(timer);
  }
}

function sentence({ minBytesPerSecond, totalMs }: UploadLimits): string {
  return `The upload was too slow: send at least ${minBytesPerSecond} bytes per second and all of it within ${totalMs / 1000} s.`;
}

/** Counts the uploads under way. */
export function createUploadSlots({ atOnce, perUrl, perOwner }: UploadLimits) {
  const urls = new Map<string, number>();
  const owners = new Map<string, number>();
  let all = 0;
  const add = (counts: Map<string, number>, name: string, change: 1 | -1) => {
    const count = (counts.get(name) ?? 0) + change;
    if (count > 0) counts.set(name, count);
    else counts.delete(name);
  };

  return {
    /** Takes a slot; gives what gives it back, or which of the limits is reached. */
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

export type UploadSlots = ReturnType<typeof createUploadSlots>;
