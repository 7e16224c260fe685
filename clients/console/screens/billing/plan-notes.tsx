import type { AccountPlan } from "../../../typescript/src/index.ts";
import { day } from "../../design/format.ts";
import { texts } from "../../texts.ts";

/** Says what is stopped, and when; nothing of an account whose services may run. */
export function PlanNotes({ plan }: { plan: AccountPlan | undefined }) {
  const { suspended, grace } = texts.billing;
  if (plan?.suspended) return <p className="note">{suspended[plan.suspended]}</p>;
  if (plan?.graceUntil) return <p className="note">{grace(day(plan.graceUntil))}</p>;
  return null;
}
