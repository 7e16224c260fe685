import { expect, test } from "vitest";
import { afterSign, type Incident, type Sign } from "./incident.ts";

const MINUTE = 60_000;

/** Returns what is told after signs such as "u0 r5 u9": unhealthy and recovered (q: quietly), at these minutes. */
function told(signs: string): string {
  let known: Incident = {};
  const said = [];
  for (const word of signs.split(" ")) {
    const at = (1_000 + Number(word.slice(1))) * MINUTE;
    const sign: Sign = { healthy: word[0] !== "u", at, quiet: word[0] === "q" };
    const { incident, tell } = afterSign(known, sign);
    known = incident;
    if (tell) said.push(`${word[0]}${incident.openedAt! / MINUTE - 1_000}`);
  }
  return said.join(" ");
}

test.each([
  ["an incident and its end", "u0 r5", "u0 r0"],
  ["getting worse is the same incident", "u0 u1 u2 r5", "u0 r0"],
  ["ill again within ten minutes: the same incident, whose notices users have", "u0 r5 u9 r14", "u0 r0 r0"],
  ["ill again after ten minutes: another one", "u0 r5 u15 r20", "u0 r0 u15 r15"],
  ["a flapping service has one incident as long as it flaps", "u0 r5 u14 r20 u29 r35 u50", "u0 r0 r0 r0 u50"],
  ["a recovery that comes first ends what comes later", "r5 u0", ""],
  ["a late recovery of an earlier failure ends nothing", "u0 u7 r5 r9", "u0 r0"],
  ["a late failure does not open what is over", "u0 r5 u4 r6", "u0 r0"],
  ["events twice", "u0 u0 r5 r5", "u0 r0"],
  ["a new version that is live ends it quietly", "u0 q5 r5 u20", "u0 u20"],
  ["a recovery of what nobody was told of", "r5", ""],
])("%s", (_name, signs, expected) => {
  expect(told(signs)).toBe(expected);
});

test("signs of an incident in any order: it is told once, or is over when it is heard of", () => {
  const orders = (words: string[]): string[][] =>
    words.length < 2
      ? [words]
      : words.flatMap((word, at) => orders(words.toSpliced(at, 1)).map((rest) => [word, ...rest]));
  for (const order of orders(["u0", "u1", "u2", "r3"])) {
    const said = told(order.join(" ")).split(" ").filter(Boolean);
    expect(said.filter((one) => one[0] === "u").length, order.join()).toBeLessThanOrEqual(1);
    expect(said.filter((one) => one[0] === "r").length, order.join()).toBeLessThanOrEqual(1);
  }
});
