/** What the status of a service follows from. */
export type StatusFacts = {
  staged: boolean;
  deleting: boolean;
  addonState?: string | null;
  addonMessage?: string | null;
  /** The newest deployment's. */
  latestStatus?: string | null;
  latestError?: string | null;
  /** Version of the applied release. */
  appliedVersion?: number | null;
  runtimeState?: string | null;
  runtimeMessage?: string | null;
};

export type ServiceStatus =
  | "staged"
  | "pending"
  | "deploying"
  | "running"
  | "degraded"
  | "crashed"
  | "failed"
  | "stopped"
  | "deleting";

const RUNTIME: Record<string, ServiceStatus> = {
  starting: "deploying",
  running: "running",
  degraded: "degraded",
  crashed: "crashed",
  stopped: "stopped",
};
const ADDON: Record<string, ServiceStatus> = {
  provisioning: "deploying",
  ready: "running",
  failed: "failed",
};
const ENDED = "Its server has ended; it is started again.";
const UNDER_WAY = ["queued", "building", "built"];

/** Status and its reason (docs/catalog.md#status). A failed deployment leaves the live one's status. */
export function serviceStatus(facts: StatusFacts): { status: ServiceStatus; statusMessage?: string } {
  if (facts.deleting) return { status: "deleting" };
  if (facts.staged) return { status: "staged" };
  if (facts.addonState === "ready" && facts.runtimeState)
    return because(RUNTIME[facts.runtimeState] ?? "running", facts.runtimeMessage ?? ENDED);
  if (facts.addonState) return because(ADDON[facts.addonState] ?? "deploying", facts.addonMessage);
  if (facts.latestStatus && UNDER_WAY.includes(facts.latestStatus)) return { status: "deploying" };
  if (facts.appliedVersion)
    return because(RUNTIME[facts.runtimeState ?? "starting"] ?? "deploying", facts.runtimeMessage);
  return facts.latestStatus === "failed" ? because("failed", facts.latestError) : { status: "pending" };
}

function because(status: ServiceStatus, message: string | null | undefined) {
  return message && status !== "running" ? { status, statusMessage: message } : { status };
}
