import type { ServiceSize } from "./services.ts";

/** Between how many replicas a service is scaled, and the share of its size that they use on average, in percent. */
export type Autoscaling = { min: number; max: number; targetCpuPercent: number };

/** A service's configuration as stored: the members of ServiceConfig, with defaults filled in. */
export type StoredConfig = {
  port?: number;
  command?: string;
  replicas?: number;
  size: ServiceSize;
  healthCheckPath?: string;
  metricsPath?: string;
  env?: Record<string, string>;
  autoApply?: boolean;
  minReadySeconds?: number;
  dockerfile?: string;
  rootDirectory?: string;
  installCommand?: string;
  buildCommand?: string;
  outputDirectory?: string;
  builder?: string;
  autoscaling?: Autoscaling;
  releaseCommand?: string;
  schedule?: string;
  timeZone?: string;
  overlap?: "forbid" | "replace" | "allow";
  runTimeoutSeconds?: number;
  /** Only stored as false. */
  public?: boolean;
  version?: string;
  storageGib?: number;
  storageMaxGib?: number;
  /** Only stored as true. */
  pooler?: boolean;
};

/** Returns whether a service has no address outside its environment. */
export function isPrivate(config: Pick<StoredConfig, "public">): boolean {
  return config.public === false;
}

type Scaled = Pick<StoredConfig, "replicas" | "autoscaling">;

/** Returns how many replicas a configuration leads to at most. */
export function mostReplicas({ replicas = 1, autoscaling }: Scaled): number {
  return Math.max(replicas, autoscaling?.max ?? 0);
}

/** Returns how a service that is to run is scaled; undefined when its number of replicas is fixed. */
export function autoscalingOf({ replicas = 1, autoscaling }: Scaled): Autoscaling | undefined {
  return replicas > 0 ? (autoscaling ?? undefined) : undefined;
}
