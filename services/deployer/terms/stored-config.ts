import type { ServiceSize } from "./services.ts";

/** A service's configuration as stored: the members of ServiceConfig, with defaults filled in. */
export type StoredConfig = {
  port?: number;
  command?: string;
  replicas?: number;
  size: ServiceSize;
  healthCheckPath?: string;
  env?: Record<string, string>;
  autoApply?: boolean;
  minReadySeconds?: number;
  dockerfile?: string;
  rootDirectory?: string;
  installCommand?: string;
  buildCommand?: string;
  outputDirectory?: string;
};
