/**
 * The port through which the deployer runs releases. Desired state in, observed state out: `apply` records what should
 * run, `status` and `watch` say how far it is. On a cluster a service is a Deployment, a Service, an Ingress and a Secret;
 * on one machine it is a set of processes.
 */

import type { Measurable, Measurement, Points } from "../terms/measurement.ts";
import type { AddonType, ServiceSize, ServiceType } from "../terms/services.ts";
import type { Autoscaling } from "../terms/stored-config.ts";
import type { UsageChange } from "../terms/usage-change.ts";

/** The desired state of a service. Applying the same release twice is applying it once. */
export type Release = {
  serviceId: string;
  accountId: string;
  projectId: string;
  environmentId: string;
  names: { project: string; environment: string; service: string };
  /** What its objects on a cluster are called, where that is not the service's name; it never changes. */
  objectName?: string;
  type: Exclude<ServiceType, "cron">;
  /** The deployment's version. Grows; one older than the applied version is refused (`release_superseded`). */
  version: number;
  /** PLATFORM_VARIABLES_REVISION of `env`. Grows within a version. */
  revision: number;
  /** What to run: `imageArtifact(ref)`, or the string that the builder returned. Opaque to the deployer. */
  artifact: string;
  /** The account's plan, as billing named it: it may decide where the release runs. */
  tier?: string;
  /** Shell command; overrides the artifact's own. */
  command?: string;
  /** The port on which the app listens where it has an address of its own. PORT always has the actual one. */
  port: number;
  /** How many times users requested a restart; grows. A higher number leads to a roll-over. */
  rolls?: number;
  /** 0 stops the service and keeps its address. With autoscaling, how many it begins with at most. */
  replicas: number;
  /** Lets the CPU that they use decide how many replicas there are; only where the runtime `autoscales`. */
  autoscaling?: Autoscaling;
  size: ServiceSize;
  /** False for a web service that only its environment reaches: it has no address, and no hosts. */
  public?: false;
  /** GET must be answered with 200–399. Without it an accepted connection on PORT is enough. Web only. */
  healthCheckPath?: string;
  /** Where it serves metrics on PORT, for whoever scrapes pods of the runtime. */
  metricsPath?: string;
  /** 0–60: how long a new replica must stay up before it counts as available. */
  minReadySeconds: number;
  /** The resolved variables, PLATFORM_VARIABLES_REVISION included. Secrets: never logged, sealed at rest. */
  env: Record<string, string>;
  /** Names in `env` whose values must not be quoted in a status message. */
  sensitive?: readonly string[];
};

/**
 * `starting`: the applied release is not available yet, and nothing is wrong so far.
 * `running`: all its replicas are available.
 * `degraded`: it is not fully available; an older release or fewer replicas may serve.
 * `crashed`: it crashes again and again, and nothing serves. `stopped`: nothing should run.
 */
export type RuntimeState = "starting" | "running" | "degraded" | "crashed" | "stopped";

export type RuntimeReason =
  | "rollout_deadline_exceeded"
  | "crash_loop"
  | "replica_ended"
  | "health_check_failed"
  /** It runs without being available for longer than most apps take to start. */
  | "not_answering"
  /** No node could pull the image. */
  | "image_pull_failed"
  /** The cluster cannot create or start it. */
  | "start_failed";

export type RuntimeStatus = {
  serviceId: string;
  /** The release applied last. */
  version: number;
  revision: number;
  state: RuntimeState;
  /** ISO time at which this version and revision was first available. Does not change once set. */
  healthySince?: string;
  /** The release that serves: an older one while a rollout is under way; absent when none does. */
  serving?: { version: number; revision: number };
  /** How many replicas answer, also those of an older release while it is replaced. */
  available?: number;
  /** How many times replicas of the applied release were restarted. */
  restarts: number;
  reason?: RuntimeReason;
  /** A sentence for users, with the last lines of output after a crash. */
  message?: string;
  /** Where a web service answers. */
  url?: string;
  /** What ran since when: the newest changes, oldest first; the last is what runs now. Billing rates it. */
  usage?: UsageChange[];
  /** Of the applied release. */
  scale?: Scale;
  /** Of the applied release. */
  rolls?: number;
  /** As `setHosts` set them; absent when there are none. */
  hosts?: ServedHost[];
  /** Somebody changed or removed what was applied; it has to be applied again. */
  drifted?: boolean;
};

/** A host name at which a web service answers besides its own address. */
export type ServedHost = {
  /** As DNS has it; `*.example.com` for all names under it that have no host of their own. */
  host: string;
  /** Requests are redirected to the same path at this host instead. */
  redirectTo?: string;
};

export type HostStatus = ServedHost & {
  /** `none`: this runtime issues none. */
  certificate: "none" | "pending" | "issued";
  /** A sentence for users. */
  message?: string;
};

export type Scale = {
  /** With autoscaling, how many there are now. */
  replicas: number;
  size: ServiceSize;
  autoscaling?: Autoscaling;
};

export type LogFilter = {
  version?: number;
  stream?: LogStream;
  /** Lines at or after this time. */
  since?: Date;
};

export type LogQuery = LogFilter & { serviceId: string; environmentId: string };

export type LogStream = "stdout" | "stderr";

export type LogLine = {
  /** ISO time. */
  timestamp: string;
  message: string;
  stream: LogStream;
  replica: string;
  version: number;
  /** The position after this line, up to 80 characters: a later `followLogs` with this `after` resumes exactly here. */
  cursor: string;
};

export type LogPage = {
  /** Newest first. */
  lines: LogLine[];
  /** The cursor of the page of older lines; absent when there are none. */
  nextCursor?: string;
};

/** Times in ms, `stepMs` between two points. */
export type SeriesQuery = {
  serviceId: string;
  environmentId: string;
  /** As in `Release`. */
  names: Pick<Release["names"], "service">;
  objectName?: string;
  type: ServiceType | AddonType;
  from: number;
  to: number;
  stepMs: number;
};

/** A command that runs once with what a release of its service would have: artifact, variables, size. */
export type Run = {
  /** Unique forever; lower-case letters, digits and hyphens, up to 60 of them. */
  name: string;
  release: Release;
  /** For a shell; without it the release's own start command runs, or what the artifact starts by itself. */
  command?: string;
  /** From when on the runtime itself may end it, if nobody else does. */
  deadlineSeconds: number;
};

/** Where a run is, and of which service. */
export type RunPlace = { name: string; serviceId: string; environmentId: string };

/** `lost`: it ended, and nobody knows how, as with its machine. */
export type RunStatus = {
  state: "running" | "succeeded" | "failed" | "lost";
  exitCode?: number;
  /** A sentence that says why it does not start, or why it was ended, where the runtime knows that. */
  message?: string;
};

/** Commands that run once. Their names are chosen by who starts them: starting one twice is starting it once. */
export type Runs = {
  /** Starts a run unless it was started before, also by another process, and has not been removed. */
  start(run: Run): Promise<void>;
  /** Returns undefined for one that was never started, or was removed. */
  status(place: RunPlace): Promise<RunStatus | undefined>;
  /**
   * Returns the first lines that it wrote, of both streams: up to `RUN_OUTPUT_LINES`, complete ones only while it runs.
   * With `last`, so many of the last ones.
   */
  output(place: RunPlace, last?: number): Promise<string[]>;
  /** Ends a run and forgets it, with its output; resolves when none of its processes is left. Idempotent. */
  remove(place: RunPlace): Promise<void>;
};

export const RUN_OUTPUT_LINES = 5_000;

export type Runtime = {
  /** Throws the `RuntimeRefusal` with which `apply` would refuse what can never run here. */
  check(release: Pick<Release, "artifact" | "command">): void;
  /**
   * Records what the service should run and begins the roll-over; resolves before that is finished. The old release
   * serves until the new one is available. Throws `RuntimeRefusal` when it can never run here.
   */
  apply(release: Release): Promise<void>;
  /** Removes a service, its logs included; resolves when none of its processes is left. Idempotent. */
  remove(serviceId: string): Promise<void>;
  /** Returns undefined for a service that was never applied or was removed. */
  status(serviceId: string): Promise<RuntimeStatus | undefined>;
  /** Returns all services of this runtime, including those that the deployer no longer knows (`remove` them). */
  list(): Promise<RuntimeStatus[]>;
  /** Calls `listener` on every change of a status; for speed only, `status` is the truth. Returns the unsubscriber. */
  watch(listener: (status: RuntimeStatus) => void): () => void;
  /** Returns one page, newest first, of all instances and versions. Empty for an unknown service. */
  logs(query: LogQuery & { limit: number; cursor?: string }): Promise<LogPage>;
  /**
   * Yields lines in order of time: the newest `tail` ones (0 by default), or all after the cursor `after`, then each new
   * one. Ends when `signal` aborts or the service is removed.
   */
  followLogs(
    query: LogQuery & { tail?: number; after?: string },
    signal: AbortSignal,
  ): AsyncIterable<LogLine>;
  /**
   * Sets replicas, size and autoscaling of the applied release; replicas that stay keep running where they can. Does nothing unless
   * this version is the one applied. Idempotent.
   */
  scale(serviceId: string, version: number, scale: Scale): Promise<void>;
  /**
   * Replaces the replicas of the applied release, which keeps its variables, unless that was done `rolls` times already.
   * Does nothing unless this version is the one applied. Idempotent.
   */
  roll(serviceId: string, version: number, rolls: number): Promise<void>;
  /** Whether it scales services by the CPU that they use. */
  autoscales?: boolean;
  /** Returns what all services use now. */
  measure?(): Promise<Measurement[]>;
  /** Why something may not be measured here, as a sentence for users. */
  unmeasured?: Partial<Record<Measurable, string>>;
  /**
   * Returns series that somebody else keeps, by their names; those that are missing there are left out. Throws when
   * nobody answers.
   */
  readSeries?(query: SeriesQuery): Promise<Record<string, Points>>;
  /**
   * Sets all host names at which a web service answers besides its own address, also with later releases and after a
   * restart. Returns what became of each; undefined for a service that was never applied or was removed. Idempotent.
   */
  setHosts(serviceId: string, hosts: ServedHost[]): Promise<HostStatus[] | undefined>;
  /**
   * Learns what the plan of the account allows in an environment now: to be called before `apply` and `scale`, and not in
   * a transaction. Only where environments have limits of their own.
   */
  learnPlan?(environmentId: string): Promise<void>;
  /**
   * Returns the ids of the environments that exist and have not been read yet: that `status` and `list` know nothing of
   * a service there says nothing. Only where reading takes time.
   */
  unread?(): string[];
  /** Returns the ids of the environments that have a namespace, even without services. Only where there are namespaces. */
  environments?(): Promise<string[]>;
  /** Removes the namespace of a deleted environment with all that it holds. Idempotent. */
  removeEnvironment?(environmentId: string): Promise<void>;
  runs: Runs;
};
