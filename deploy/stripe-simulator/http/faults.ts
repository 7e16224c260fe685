/**
 * How a request fails: `refuse` closes the connection unread, `timeout` never answers, `error` answers 500
 * (and is saved for the request's Idempotency-Key), `rate_limit` answers 429, `forbid` 403 as for a key that lacks the
 * right, `lose_answer` runs the request and closes the connection instead of answering.
 */
export const FAULTS = ["refuse", "timeout", "error", "rate_limit", "forbid", "lose_answer"] as const;
export type FaultKind = (typeof FAULTS)[number];

/** A fault for the next `times` requests (1) of a method and path; `*` in the path is any text, no path is any. */
export type Fault = { kind: FaultKind; method?: string; path?: string; times?: number };

export type Faults = ReturnType<typeof createFaults>;

/** Creates the list of injected faults. */
export function createFaults() {
  let faults: (Fault & { times: number })[] = [];
  return {
    add: (fault: Fault): void => {
      faults.push({ ...fault, times: fault.times ?? 1 });
    },
    clear: (): void => {
      faults = [];
    },
    /** Returns the faults that have not happened yet. */
    pending: (): Fault[] => faults.map((fault) => ({ ...fault })),
    /** Returns the fault for a request and counts down its times. */
    take(method: string, path: string): FaultKind | undefined {
      const found = faults.find((fault) => matches(fault, method, path));
      if (!found) return undefined;
      found.times--;
      faults = faults.filter(({ times }) => times > 0);
      return found.kind;
    },
  };
}

function matches({ method, path }: Fault, requestMethod: string, requestPath: string): boolean {
  if (method !== undefined && method.toUpperCase() !== requestMethod) return false;
  if (path === undefined) return true;
  const [start = "", ...rest] = path.split("*");
  if (rest.length === 0) return requestPath === path;
  if (!requestPath.startsWith(start)) return false;
  let at = start.length;
  for (const part of rest) {
    const next = requestPath.indexOf(part, at);
    if (next < 0) return false;
    at = next + part.length;
  }
  return rest.at(-1) === "" || requestPath.endsWith(rest.at(-1)!);
}
