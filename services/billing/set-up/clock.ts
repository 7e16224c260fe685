import type Stripe from "stripe";
import { type Finding, fine, wrong } from "./finding.ts";

/** Stripe takes usage of up to five minutes ahead, and webhooks are refused that are five minutes old. */
const TOLERANCE_MS = 60_000;

/** Returns whether the clock of this machine is that of Stripe. */
export async function checkClock(stripe: Stripe): Promise<Finding> {
  const before = Date.now();
  const { lastResponse } = await stripe.products.list({ limit: 1 });
  return toFinding(lastResponse.headers.date, before, Date.now());
}

/** Returns what the time that Stripe answered with says of a clock that showed these times (ms) around it. Pure. */
export function toFinding(date: string | undefined, before: number, after: number): Finding {
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return wrong("Stripe did not say what time it is.", "Try again.");
  const off = at < before ? before - at : Math.max(0, at - after);
  if (off <= TOLERANCE_MS) return fine("The clock of this machine is right.");
  return wrong(
    `The clock of this machine is ${Math.round(off / 1_000)} s off.`,
    "Synchronize it, by NTP: signatures and reports of usage depend on it.",
  );
}
