import type { Deployment, ServiceState } from "../../../typescript/src/index.ts";
import type { texts } from "../../texts.ts";

/** Returns what a deployment is at: in a word, and the step of the builder. */
export function stageOf(
  deployment: Deployment,
  state: ServiceState,
): { status: keyof typeof texts.statuses; step?: string | undefined } {
  const { version, status, healthyAt, buildStage } = deployment;
  const under = state.deployment?.version === version ? state.deployment : undefined;
  if (status === "failed" || status === "superseded") return { status };
  if (state.release?.version === version && !under) return { status: healthyAt ? "live" : "applied" };
  if (status === "applied" && !under) return { status: "replaced" };
  return { status: under?.status ?? status, step: under?.buildStage ?? buildStage };
}

/** Returns from when to when a deployment took, in milliseconds; to now while it is under way. */
export function tookMs(
  { createdAt, healthyAt, finishedAt, appliedAt }: Deployment,
  isUnderWay: boolean,
  now: number,
) {
  const end = healthyAt ?? finishedAt ?? (isUnderWay ? undefined : appliedAt);
  return (end === undefined ? now : Date.parse(end)) - Date.parse(createdAt);
}
