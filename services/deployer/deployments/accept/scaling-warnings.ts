import { sizes } from "../../../kit/sizes.ts";
import { newNotice, type StoredNotice } from "../../terms/notice.ts";
import type { StoredConfig } from "../../terms/stored-config.ts";

type Scale = Pick<StoredConfig, "replicas" | "size">;

/**
 * Returns the warning that a deployment has fewer replicas, or a smaller size, than what is live; none otherwise
 * (docs/deployments.md#rollback).
 */
export function scalingWarnings(live: Scale | null | undefined, next: Scale): StoredNotice[] {
  if (!live) return [];
  const [before = 1, after = 1] = [live.replicas, next.replicas];
  const smaller = sizes[next.size]?.memory < sizes[live.size]?.memory;
  const lost = [
    ...(after < before ? [`${count(after)} instead of ${before}`] : []),
    ...(smaller ? [`the size ${next.size} instead of ${live.size}`] : []),
  ];
  if (lost.length === 0) return [];
  const message = `What is live is scaled down: this version has ${lost.join(", and ")}. PATCH the service to scale it.`;
  return [newNotice("apply", "scales_down", message)];
}

const count = (replicas: number) => `${replicas} ${replicas === 1 ? "replica" : "replicas"}`;
