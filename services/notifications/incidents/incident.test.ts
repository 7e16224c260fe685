import { expect, test } from "vitest";
import { afterReport, type HealthReport, type Incident } from "./incident.ts";

const MINUTE = 60_000;

/** Returns the notifications after reports such as "u0 r5 u9": unhealthy and recovered (q: quietly), at these minutes. */
function notifiedOf(reports: string): string {
  let known: Incident = {};
  const notified = [];
  for (const word of reports.split(" ")) {
    const at = (1_000 + Number(word.slice(1))) * MINUTE;
    const report: HealthReport = { healthy: word[0] !== "u", at, quiet: word[0] === "q" };
    const { incident, notify } = afterReport(known, report);
    known = incident;
    if (notify) notified.push(`${word[0]}${incident.openedAt! / MINUTE - 1_000}`);
  }
  return notified.join(" ");
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
  ["a recovery of a failure that was not notified", "r5", ""],
])("%s", (_name, reports, expected) => {
  expect(notifiedOf(reports)).toBe(expected);
});

test("reports of an incident in any order: it is notified once, or not at all if its end is known first", () => {
  const orders = (words: string[]): string[][] =>
    words.length < 2
      ? [words]
      : words.flatMap((word, at) => orders(words.toSpliced(at, 1)).map((rest) => [word, ...rest]));
  for (const order of orders(["u0", "u1", "u2", "r3"])) {
    const notified = notifiedOf(order.join(" ")).split(" ").filter(Boolean);
    expect(notified.filter((one) => one[0] === "u").length, order.join()).toBeLessThanOrEqual(1);
    expect(notified.filter((one) => one[0] === "r").length, order.join()).toBeLessThanOrEqual(1);
  }
});
