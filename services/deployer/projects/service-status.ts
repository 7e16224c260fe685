/** What determines the status of a service. */
export type StatusFacts = {
  staged: boolean;
  deleting: boolean;
  addonState?: string | null;
  addonMessage?: string | null;
  /** Status and error of the newest deployment. */
  latestStatus?: string | null;
  latestError?: string | null;
  /** Version of the applied release. */
  appliedVersion?: number | null;
  runtimeState?: string | null;
  runtimeMessage?: string | null;
  /** Why it is stopped although it is to run. */
  suspended?: string | null;
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
const SERVER_EXITED = "The server exited and is being restarted.";
const UNDER_WAY = ["queued", "building", "built"];

const SUSPENDED: Record<string, string> = {
  free_plan:
    "Stopped: no plan pays for it, and the grace period is over. It starts again when an owner subscribes.",
  spend_limit:
    "Stopped: the account has reached its spend limit. It starts again when an owner raises or removes the limit, or when the next period begins.",
};

/** Returns a service's status and the reason for it (docs/catalog.md#status). */
export function serviceStatus(facts: StatusFacts): {
  status: ServiceStatus;
  statusMessage?: string;
  suspended: string | undefined;
} {
  const { suspended } = facts;
  const own = ownStatus(facts);
  if (!suspended) return { ...own, suspended: undefined };
  return { ...withMessage(own.status, SUSPENDED[suspended] ?? SUSPENDED.free_plan), suspended };
}

function ownStatus(facts: StatusFacts): { status: ServiceStatus; statusMessage?: string } {
  if (facts.deleting) return { status: "deleting" };
  if (facts.staged) return { status: "staged" };
  if (facts.addonState === "ready" && facts.runtimeState)
    return withMessage(RUNTIME[facts.runtimeState] ?? "running", facts.runtimeMessage ?? SERVER_EXITED);
  if (facts.addonState) return withMessage(ADDON[facts.addonState] ?? "deploying", facts.addonMessage);
  if (facts.latestStatus && UNDER_WAY.includes(facts.latestStatus)) return { status: "deploying" };
  if (facts.appliedVersion)
    return withMessage(RUNTIME[facts.runtimeState ?? "starting"] ?? "deploying", facts.runtimeMessage);
  return facts.latestStatus === "failed" ? withMessage("failed", facts.latestError) : { status: "pending" };
}

function withMessage(status: ServiceStatus, message: string | null | undefined) {
  return message && status !== "running" ? { status, statusMessage: message } : { status };
}
