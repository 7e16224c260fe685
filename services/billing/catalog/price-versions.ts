/** A price list: its version, and the day from which it is sold. */
type PriceList = { version: string; from: Date };

/** All price lists, oldest first; the last is in force. */
const PRICE_LISTS: PriceList[] = [{ version: "2026-11", from: new Date("2026-11-01T00:00:00Z") }];

/** The price list that is in force. Prices of a version never change. */
export const PRICE_VERSION = PRICE_LISTS.at(-1)!.version;

/** How long prices hold at least after others came into force. */
const NOTICE_MS = 60 * 86_400_000;

/**
 * Returns until when the prices of a version hold for a subscription: to the end of the term that runs when the notice
 * is over. undefined while they are in force (docs/billing.md#plans). Pure.
 */
export function legacyUntil(
  version: string,
  term: { end: Date; months: number },
  lists: PriceList[] = PRICE_LISTS,
): Date | undefined {
  const next = lists[lists.findIndex((list) => list.version === version) + 1];
  if (!next || next.version === lists[0]?.version) return undefined;
  const noticed = next.from.getTime() + NOTICE_MS;
  const end = new Date(term.end);
  while (end.getTime() < noticed) end.setUTCMonth(end.getUTCMonth() + term.months);
  return end;
}
