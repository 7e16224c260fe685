import { monthsAfter } from "./terms.ts";

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
  const noticed = (next.from.getTime() + NOTICE_MS) / 1_000;
  const first = Math.floor(term.end.getTime() / 1_000);
  let end = first;
  for (let terms = 1; end < noticed; terms++) end = monthsAfter(first, terms * term.months);
  return new Date(end * 1_000);
}
