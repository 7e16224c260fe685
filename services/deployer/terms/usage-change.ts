import type { ServiceSize } from "./services.ts";

/** From `at` (ms since 1970) on, this many available replicas of this size served. */
export type UsageChange = {
  at: number;
  replicas: number;
  /** Absent where the runtime does not know it: then the service's configuration says it. */
  size?: ServiceSize;
};
