import type { Figure } from "../../bench/row.ts";
import { auditOnce } from "./audit.ts";
import { billingAsSimulated } from "./billing.ts";
import type { Check, Checking } from "./checking.ts";
import { deploymentsDense, promptDeployments } from "./deployments.ts";
import { deploymentsEndOnce, noDeadLetters, outboxesDrained } from "./events.ts";
import { violations } from "./history.ts";
import { noCrashes, nothingLeft } from "./leftovers.ts";
import { oneMail } from "./mails.ts";
import { chosenHolds, endedStaysEnded, membersAsAcknowledged, toldOnce } from "./people.ts";

const answersAsDocumented: Check = { name: "answers as documented", find: ({ record }) => record.wrong };

const linearizable: Check = {
  name: "linearizable variables",
  find: ({ record }) => violations(record.history),
};

/** All rules, in the order in which they are looked at: the last ones end the run. */
export const CHECKS: Check[] = [
  outboxesDrained,
  linearizable,
  promptDeployments,
  deploymentsDense,
  deploymentsEndOnce,
  auditOnce,
  oneMail,
  toldOnce,
  chosenHolds,
  membersAsAcknowledged,
  endedStaysEnded,
  billingAsSimulated,
  answersAsDocumented,
  noDeadLetters,
  nothingLeft,
  noCrashes,
];

/** Looks whether a rule holds. Returns the number of exceptions, and passes each kind of exception to `say`. */
export async function look(check: Check, checking: Checking, say: (what: string) => void): Promise<Figure> {
  const { name } = check;
  const exceptions = await check.find(checking);
  // One exception of each kind, with the number of others.
  const kinds = Map.groupBy(exceptions, (one) => one.replace(/[a-z]+_[0-9a-z]{26}|\d+/g, "…"));
  for (const [first, ...others] of kinds.values())
    say(`${name}: ${first}${others.length > 0 ? ` (and ${others.length} like it)` : ""}`);
  return { name, value: exceptions.length, unit: "exceptions", goal: "<= 0" };
}
