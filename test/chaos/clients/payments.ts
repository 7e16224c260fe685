import { setTimeout as delay } from "node:timers/promises";
import { PROMO_CODE } from "../../../deploy/local/payments.ts";
import type { Random } from "../../../services/kit/testing/random.ts";
import type { Client } from "./client.ts";
import type { Record } from "./record.ts";
import type { Work } from "./shared.ts";

/** The provider is away, or what was asked for has happened already. */
const REFUSED = { allowed: [502, 422], wanted: [404, 409] };
const WEBHOOK_MS = 20_000;

/** Buys a plan on the simulator's page, cancels it, and redeems and drops promo codes, each client for its own account. */
export const payments = (record: Record): Work => {
  const accounts = new Map<string, string>();
  return async (client, _shared, random, round) => {
    const account = accounts.get(client.name) ?? (await found(client, random));
    if (!account) return;
    if (!accounts.has(client.name)) record.buyers.push(account);
    accounts.set(client.name, account);
    const A = `/accounts/${account}`;
    const choice = random.next();
    if (choice < 0.15) await client.send("POST", `${A}/coupon`, { code: PROMO_CODE }, REFUSED);
    else if (choice < 0.25) await client.send("DELETE", `${A}/coupon`, undefined, REFUSED);
    else {
      const live = await isSubscribed(client, A);
      if (live === true && round % 2 === 1)
        await client.send("DELETE", `${A}/subscription`, undefined, REFUSED);
      else if (live === false) await buy(client, A, random);
    }
    await delay(random.between(100, 1_000));
  };
};

async function found(client: Client, random: Random): Promise<string | undefined> {
  const effect = { action: "account.create", audited: false };
  const made = await client.effect(
    effect,
    "account",
    "/accounts",
    { handle: `buyer-${client.name}` },
    random,
  );
  return made?.id;
}

/** Returns whether the account has a subscription that has not ended; undefined when it is not known. */
async function isSubscribed(client: Client, A: string): Promise<boolean | undefined> {
  const { status, body } = await client.send("GET", `${A}/subscription`, undefined, REFUSED);
  if (status === 404) return false;
  if (status !== 200) return undefined;
  return !["canceled", "incomplete_expired"].includes((body as { status: string }).status);
}

async function buy(client: Client, A: string, random: Random): Promise<void> {
  // A monthly plan ends with its period, so its account is done with.
  const choice = { tierId: random.of(["pro", "team"]), cadence: random.next() < 0.8 ? "annual" : "monthly" };
  const { status, body } = await client.send("POST", `${A}/subscription`, choice, REFUSED);
  if (status !== 200) return;
  const { checkoutUrl } = body as { checkoutUrl: string };
  const card = random.next() < 0.8 ? "4242 4242 4242 4242" : "4000 0000 0000 0002";
  await delay(random.between(0, 2_500));
  const form = new URLSearchParams({ action: "pay", card_number: card });
  await fetch(checkoutUrl, { method: "POST", body: form, redirect: "manual" }).catch(() => {});
  for (const deadline = Date.now() + WEBHOOK_MS; Date.now() < deadline; await delay(1_000))
    if (await isSubscribed(client, A)) return;
}
