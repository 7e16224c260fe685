import { TEST_KIND } from "../kinds.ts";

/** What a receiver answered, or why there is no answer. */
export type Answer = { status: number } | { error: SendError };
export type SendError =
  | "timeout"
  | "address_refused"
  | "name_not_found"
  | "connection_failed"
  | "certificate_invalid"
  | "interrupted";

/** What becomes of a delivery after an attempt; `last` when the receiver failed in all. */
export type Outcome = {
  state: "delivered" | "pending" | "failed";
  retrySeconds: number;
  last: boolean;
  gone: boolean;
};

const MINUTE = 60;
const HOUR = 60 * MINUTE;
/** The pauses between attempts: at least three days in all. */
const RETRY_SECONDS = [
  ...[5, 30, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE],
  ...[1 * HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 20 * HOUR, 24.5 * HOUR],
];
/** Pauses are longer by a random part of up to this: what failed together is not repeated together. */
const JITTER = 0.1;
const GONE = 410;

/** How often an event is sent at most. One that is taken more often was interrupted each time. */
export const MAX_TRIES = RETRY_SECONDS.length + 1;

/** Returns what becomes of a delivery after its attempt number `tries`. Pure but for `random`. */
export function outcomeOf(
  { kind, tries }: { kind: string; tries: number },
  answer: Answer,
  random = Math.random,
): Outcome {
  const status = "status" in answer ? answer.status : 0;
  const common = { retrySeconds: 0, last: false, gone: status === GONE };
  if (status >= 200 && status < 300) return { ...common, state: "delivered" };
  const seconds = kind === TEST_KIND ? undefined : RETRY_SECONDS[tries - 1];
  if (status === GONE || kind === TEST_KIND) return { ...common, state: "failed" };
  // A process that never came to an end says nothing about the receiver.
  if (seconds === undefined) return { ...common, state: "failed", last: tries <= MAX_TRIES };
  return { ...common, state: "pending", retrySeconds: seconds * (1 + JITTER * random()) };
}
