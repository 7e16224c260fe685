import { runModel } from "../run.ts";
import type { Fault } from "./list.ts";

export type Finding = {
  fault: Fault;
  /** How many schedules ran, up to the first that broke a rule. */
  schedules: number;
  /** The rule that it broke. */
  message?: string;
};

/** Returns whether a fault was found, if it does harm, and not otherwise. */
export const isAsExpected = ({ fault, message }: Finding) =>
  (message !== undefined) === (fault.harmless === undefined);

/** Runs random schedules of the deployer with each of the faults, up to the first that breaks a rule; reports each. */
export async function findFaults(
  faults: readonly Fault[],
  options: { schedules: number; seed?: number; workers?: number },
  report: (finding: Finding) => void = () => {},
): Promise<Finding[]> {
  const { schedules, seed, workers = 1 } = options;
  const findings: Finding[] = [];
  const left = faults.values();
  const work = async () => {
    for (const fault of left) {
      const { fences = [], edits = [] } = fault;
      const run = await runModel({ schedules, seed, removed: [...fences], edits: [...edits], shrinkMs: 0 });
      const finding = { fault, schedules: run.schedules, message: run.failure?.message };
      findings.push(finding);
      report(finding);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return findings;
}

/** Returns a finding in text. */
export function describeFinding(finding: Finding): string {
  const { fault, schedules, message } = finding;
  const harmless = fault.harmless ? ` (${fault.harmless})` : "";
  const found = message
    ? `found in schedule ${schedules}, ${message}`
    : `not found in ${schedules} schedules`;
  return `${isAsExpected(finding) ? "ok  " : "FAIL"} ${fault.name}${harmless}: ${found}`;
}
