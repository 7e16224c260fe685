import type { ReleaseState } from "../../release/release-annotations.ts";
import { usageNow } from "../usage.ts";
import { healthyAt, type Observation } from "./status.ts";

/** Returns the recorded state with what was seen for the first time; undefined when nothing was. Pure. */
export function unrecordedState(seen: Observation, now: number): ReleaseState | undefined {
  const { recorded, deployment } = seen;
  if (deployment.metadata?.deletionTimestamp) return undefined;
  const healthy = healthyAt(seen, now);
  const usage = usageNow(seen, now);
  if (healthy === recorded.healthyAt && usage === recorded.usage) return undefined;
  return { ...recorded, usage, ...(healthy !== undefined && { healthyAt: healthy }) };
}
