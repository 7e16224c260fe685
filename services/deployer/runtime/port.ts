/**
 * The port through which the deployer runs releases. Desired state in, observed state out: `apply` says
 * what should run and returns once that is recorded, `status` and `watch` say how far it is. On a cluster
 * one service is one Deployment, Service, Ingress and Secret; on one machine it is a set of processes.
 */

export type ServiceType = "web" | "worker";
export type ServiceSize = "nano" | "small" | "medium" | "large";

/** What one service should run. The same release applied twice is applied once. */
export type Release = {
  serviceId: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  names: { project: string; environment: string; service: string };
  type: ServiceType;
  /** The deployment's version. Grows; an older one than the applied is refused (`release_superseded`). */
  version: number;
  /** PLATFORM_VARIABLES_REVISION of `env`. Grows within a version. */
  revision: number;
  /** What to run: `imageArtifact(ref)`, or the string that the builder returned. Opaque to the deployer. */
  artifact: string;
  /** Shell command; replaces the one that comes with the artifact. */
  command?: string;
  /** The port the app listens on where it has an address of its own. The app is always told by PORT. */
  port: number;
  /** How often a user asked to roll the service's releases; grows. A release with more is rolled over to. */
  rolls?: number;
  /** 0 stops the service and keeps its address. */
  replicas: number;
  size: ServiceSize;
  /** Must answer 200–399. Without it an accepted connection on PORT is enough. Web only. */
  healthCheckPath?: string;
  /** 0–60: how long a new replica must stay up before it counts as available. */
  minReadySeconds: number;
  /** The resolved variables, PLATFORM_VARIABLES_REVISION included. Secrets: never logged, sealed at rest. */
  env: Record<string, string>;
  /** Names in `env` whose values must not be quoted in a status message. */
  sensitive?: readonly string[];
};

/**
 * `starting`: the applied release is not available yet, without trouble so far.
 * `running`: all its replicas are available.
 * `degraded`: it is not fully available; an older release or fewer replicas may serve.
 * `crashed`: it ends again and again and nothing serves. `stopped`: nothing should run.
 */
export type RuntimeState = "starting" | "running" | "degraded" | "crashed" | "stopped";

export type RuntimeReason =
  | "rollout_deadline_exceeded"
  | "crash_loop"
  | "replica_ended"
  | "health_check_failed"
  /** No node could get the image. */
  | "image_pull_failed"
  /** The cluster refuses to start it. */
  | "start_failed";

export type RuntimeStatus = {
  serviceId: string;
  /** The release applied last. */
  version: number;
  revision: number;
  state: RuntimeState;
  /** ISO time at which this very release (version and revision) first was available. Stays once set. */
  healthySince?: string;
  /** What answers requests now; an older release while a rollout is under way; absent when nothing does. */
  serving?: { version: number; revision: number };
  /** How often replicas of the applied release were started again. */
  restarts: number;
  reason?: RuntimeReason;
  /** A sentence for users, with the last lines of output after a crash. */
  message?: string;
  /** Where a web service answers. */
  url?: string;
  /**
   * What ran, and since when: the newest changes, oldest first; the last is what runs now. Billing rates it.
   */
  usage?: UsageChange[];
  /** What the applied release should have. */
  scale?: Scale;
  /** The applied release's. */
  rolls?: number;
  /** Somebody changed or removed what was applied: it has to be applied again. */
  drifted?: boolean;
};

export type Scale = {
  replicas: number;
  size: ServiceSize;
};

/** From `at` (ms since 1970) on, so many available replicas of this size served; 0: none. */
export type UsageChange = {
  at: number;
  replicas: number;
  /** Absent where the runtime does not decide it: then the service's configuration does. */
  size?: ServiceSize;
};

export type LogQuery = {
  serviceId: string;
  version?: number;
  stream?: LogStream;
  /** Lines at or after this time. */
  since?: Date;
};

export type LogStream = "stdout" | "stderr";

export type LogLine = {
  /** ISO time. */
  timestamp: string;
  message: string;
  stream: LogStream;
  replica: string;
  version: number;
  /** The position after this line, up to 80 characters: `after` of a later `followLogs` goes on exactly there. */
  cursor: string;
};

export type LogPage = {
  /** Newest first. */
  lines: LogLine[];
  /** Leads to older lines; absent when there are none. */
  nextCursor?: string;
};

export type Runtime = {
  /** Throws the `RuntimeRefusal` with which `apply` will refuse what can never run here. */
  check(release: Pick<Release, "artifact" | "command">): void;
  /**
   * Records what the service should run and begins the roll-over; returns before it is finished. The old
   * release serves until the new one is available. Throws `RuntimeRefusal` when it can never run here.
   */
  apply(release: Release): Promise<void>;
  /** Ends the service and forgets it, logs included; resolves when no process of it is left. Idempotent. */
  remove(serviceId: string): Promise<void>;
  /** Undefined for a service that was never applied or was removed. */
  status(serviceId: string): Promise<RuntimeStatus | undefined>;
  /** Everything this runtime holds, also what the deployer has forgotten (then: `remove` it). */
  list(): Promise<RuntimeStatus[]>;
  /** Calls back on every change of a status; for speed only, `status` is the truth. Returns the unsubscriber. */
  watch(listener: (status: RuntimeStatus) => void): () => void;
  /** One page, newest first, earlier instances and versions included. Empty for an unknown service. */
  logs(query: LogQuery & { limit: number; cursor?: string }): Promise<LogPage>;
  /**
   * Lines in order of time: the newest `tail` ones (0 unless told), or all after the cursor `after`, then
   * each new one as it comes. Ends when `signal` aborts or the service is removed.
   */
  followLogs(
    query: LogQuery & { tail?: number; after?: string },
    signal: AbortSignal,
  ): AsyncIterable<LogLine>;
  /**
   * Brings the applied release to other replicas or another size; replicas that stay go on where they can.
   * Does nothing unless this version is the one applied. Idempotent.
   */
  scale(serviceId: string, version: number, scale: Scale): Promise<void>;
  /**
   * Rolls over to new replicas of the applied release, with the variables it has, until that was done `rolls`
   * times. Does nothing unless this version is the one applied. Idempotent.
   */
  roll(serviceId: string, version: number, rolls: number): Promise<void>;
  /** Ids of the environments for which it keeps a place, services or none; where it keeps one at all. */
  environments?(): Promise<string[]>;
  /** Gives up the place of an environment that is no more, with all that is in it. Idempotent. */
  removeEnvironment?(environmentId: string): Promise<void>;
};

export type RuntimeRefusalCode =
  | "image_needs_cluster"
  | "image_not_allowed"
  | "artifact_missing"
  | "command_missing"
  | "release_superseded"
  | "cluster_refused"
  | "invalid_cursor"
  | "runtime_in_use";

/** A refusal that trying again cannot cure. `message` is a sentence for users. */
export class RuntimeRefusal extends Error {
  readonly stage = "apply";
  readonly code: RuntimeRefusalCode;
  constructor(code: RuntimeRefusalCode, message: string) {
    super(message);
    this.name = "RuntimeRefusal";
    this.code = code;
  }
}

/** The artifact of an image deployment. */
export function imageArtifact(ref: string): string {
  return `image:${ref}`;
}

/** The image ref of an artifact, undefined when it is none. */
export function imageRef(artifact: string): string | undefined {
  return artifact.startsWith("image:") ? artifact.slice("image:".length) : undefined;
}

/** pino's shape. */
export type Logger = {
  info(object: object, message: string): void;
  warn(object: object, message: string): void;
  error(object: object, message: string): void;
};
