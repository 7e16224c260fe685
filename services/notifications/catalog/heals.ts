import type { KindKey } from "./kinds.ts";

/** The kinds that are over, for the same service, once one of these is told: no digest mentions them. */
export const heals: Partial<Record<KindKey, KindKey[]>> = {
  "deploy.ready": ["deploy.failed", "deploy.unhealthy"],
  "deploy.recovered": ["deploy.unhealthy"],
};
