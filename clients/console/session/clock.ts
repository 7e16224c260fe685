/** Clocks that differ by less agree: the head of an answer names a time to the second. */
const AGREE_MS = 2_000;
let aheadMs = 0;

/** Takes the time of the server from an answer: clocks of computers may be wrong by hours. */
export function learnTime({ headers }: Response): void {
  const time = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(time)) return;
  const difference = time - Date.now();
  aheadMs = Math.abs(difference) < AGREE_MS ? 0 : difference;
}

/** Returns the time of the server, in ms, as far as it is known. */
export const serverTime = (): number => Date.now() + aheadMs;
