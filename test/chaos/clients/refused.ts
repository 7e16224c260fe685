import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import type { Shared } from "./shared.ts";

/** With no fault, an event that ends access arrives within milliseconds; this is for a busy machine. */
const CALM_MS = 2_000;
/** However late events are, no gateway remembers a caller longer than 5 s. */
const LATEST_MS = 6_000;

/**
 * Uses a token whose access ended at a time until it is refused (docs/conventions.md#roles). What is still answered
 * when it must not be is noted as wrong. Only the way through the one gateway is asked, which is told by events.
 */
export async function expectRefused(
  client: Client,
  { faults, account }: Shared,
  { token, ended, what, status }: { token: string; ended: number; what: string; status: number },
): Promise<void> {
  for (const wait of [CALM_MS, LATEST_MS]) {
    await delay(Math.max(0, ended + wait - Date.now()));
    const sent = Date.now();
    const answer = await client.send("GET", `${account}/projects`, undefined, { token, wanted: [status] });
    if (answer.status === status) return;
    const due = wait === LATEST_MS || faults.calm(ended, Date.now());
    if (answer.status === 200 && due)
      client.wrong(`${what} is still answered ${sent - ended} ms after its end was acknowledged`);
    if (answer.status === 200 && due) return;
  }
}
