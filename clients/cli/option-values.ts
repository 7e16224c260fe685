import type { ServiceAddress } from "../typescript/src/path.ts";
import type { Context } from "./context.ts";
import { usage } from "./failure.ts";
import { serverNow } from "./session/http.ts";

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns a whole number that an option gives. */
export function numberOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text)) throw usage(`${option} is a number, not ${JSON.stringify(text)}.`);
  return Number(text);
}

/** Returns the time that an option gives, by the server's clock: this one may be hours off. */
export async function timeOf(
  ctx: Context,
  at: ServiceAddress,
  option: string,
  text: string | undefined,
): Promise<string | undefined> {
  if (text === undefined) return undefined;
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount && unit) {
    const { berth, observed } = await ctx.session();
    if (observed.clockAheadMs === undefined) await berth.services.get(at, { signal: ctx.signal });
    return new Date(serverNow(observed) - Number(amount) * UNIT_MS[unit]!).toISOString();
  }
  const time = Date.parse(text);
  if (Number.isNaN(time))
    throw usage(`${option} is a time such as 10m or 2026-11-25T09:00Z, not ${JSON.stringify(text)}.`);
  return new Date(time).toISOString();
}
