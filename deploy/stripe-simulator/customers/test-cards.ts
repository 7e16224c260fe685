import type { CardOutcome } from "../state/state.ts";

export type TestCard = {
  number: string;
  brand: string;
  outcome: CardOutcome;
  decline: string;
  words: string[];
};

/** The supported ones of Stripe's test cards: by number on pages, by `pm_card_…` and `tok_…` in the API. */
export const TEST_CARDS: TestCard[] = [
  card("4242424242424242", "visa", "succeeds", ["visa"]),
  card("5555555555554444", "mastercard", "succeeds", ["mastercard"]),
  card("4000000000000002", "visa", "declines", ["visa_chargeDeclined", "chargeDeclined"]),
  card(
    "4000000000009995",
    "visa",
    "declines",
    ["visa_chargeDeclinedInsufficientFunds", "chargeDeclinedInsufficientFunds"],
    "insufficient_funds",
  ),
  card("4000000000000341", "visa", "fails_later", ["chargeCustomerFail"]),
  card("4000000000000259", "visa", "disputes", ["createDispute"]),
  card("4000002760003184", "visa", "needs_action", ["authenticationRequired"], "authentication_required"),
];

function card(
  number: string,
  brand: string,
  outcome: CardOutcome,
  words: string[],
  decline = "generic_decline",
): TestCard {
  return { number, brand, outcome, decline, words };
}

/** Returns the test card of a number, written with or without spaces. */
export function findCardByNumber(number: string): TestCard | undefined {
  const digits = number.replaceAll(/[\s-]/g, "");
  return TEST_CARDS.find((candidate) => candidate.number === digits);
}

/** Returns the test card of a name such as `pm_card_visa` or `tok_visa`. */
export function findCardByName(name: string): TestCard | undefined {
  const word = /^(?:pm_card|tok)_(\w+)$/.exec(name)?.[1];
  return TEST_CARDS.find(({ words }) => word !== undefined && words.includes(word));
}
