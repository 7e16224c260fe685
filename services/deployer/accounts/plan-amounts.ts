import { type Entitlements, type EntitlementsOf, TIERS } from "../../kit/plans.ts";

// What statements have to know of plans: how much of something each allows.

/** Returns how much each plan allows, as JSON, for a parameter of a statement with `planAmount`. */
export function toPlanAmounts(
  entitlementsOf: EntitlementsOf,
  amountOf: (allowed: Entitlements) => number,
): string {
  const amounts = TIERS.map((tier) => [tier, amountOf(entitlementsOf(tier))] as const);
  return JSON.stringify({ ...Object.fromEntries(amounts), default: amountOf(entitlementsOf(undefined)) });
}

/** SQL of how much an account's plan allows, of the amounts in a parameter. */
export function planAmount(amounts: string, accountId: string): string {
  return `coalesce((${amounts}::jsonb ->> (select a.tier from accounts a where a.id = ${accountId}))::int,
    (${amounts}::jsonb ->> 'default')::int)`;
}
