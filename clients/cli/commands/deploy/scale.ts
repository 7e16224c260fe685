import type { ServiceConfig } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import { usage } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";
import { ADDON_OPTIONS, addonConfigOf } from "../addons/addon-options.ts";

export const SIZES = ["nano", "small", "medium", "large"] as const;
export type Size = (typeof SIZES)[number];

const scale = command({
  name: "scale",
  summary: "Change replicas, size, and the storage and pooler of an addon",
  args: "[REPLICAS]",
  arity: [0, 1],
  about: [
    "Takes effect on the running release at once. 0 replicas stop the service and keep its address.",
    "Storage only grows: a volume never shrinks.",
    "With --max, on a cluster, the number of replicas follows the CPU that they use; --fixed turns that off.",
  ],
  examples: [
    ["scale 3", "run three replicas"],
    ["scale --size small", "of another size"],
    ["scale --min 1 --max 5 --cpu 70", "as many replicas as use 70% of their size"],
    ["scale 0 -s jobs", "stop the service jobs"],
    ["scale 2 -s cache", "give the addon cache a standby"],
    ["scale --storage 40 -s db", "let the volume of the addon db grow to 40 GiB"],
    ["scale --storage-max 80 -s db", "let it grow by itself before it is full, to 80 GiB at most"],
    ["scale --pooler on -s db", "give it a pooler, to which its key POOLED_URL leads"],
  ],
  options: {
    size: { kind: "text", value: "SIZE", about: "nano, small, medium or large", choices: SIZES },
    storage: { kind: "text", value: "GIB", about: "Storage of an addon in GiB" },
    "storage-max": {
      kind: "text",
      value: "GIB",
      about: "Up to how many GiB it grows by itself; 0: not at all",
    },
    pooler: { ...ADDON_OPTIONS.pooler, about: "Whether a postgres addon has a pooler" },
    min: { kind: "text", value: "N", about: "The fewest replicas; 1 by default" },
    max: { kind: "text", value: "N", about: "The most replicas, which turns autoscaling on" },
    cpu: {
      kind: "text",
      value: "PERCENT",
      about: "The share of its size that a replica uses; 70 by default",
    },
    fixed: { kind: "flag", about: "Turn autoscaling off" },
  },
  async run({ args: [text], options }, ctx) {
    const { io, signal } = ctx;
    const replicas = numberOf("REPLICAS", text);
    const size = options.size as Size | undefined;
    const { storage, pooler, "storage-max": most } = options;
    const ofAddon = addonConfigOf({ storage, pooler, "storage-max": most });
    const autoscaling = options.fixed ? {} : autoscalingOf(options);
    if (replicas === undefined && !size && !autoscaling && !ofAddon)
      throw usage("Neither replicas, a size, storage nor a pooler is given.", "berth scale 2");
    const at = await ctx.at.service();
    const config = {
      ...(replicas !== undefined && { replicas }),
      ...(size && { size }),
      ...(autoscaling && { autoscaling }),
      ...ofAddon,
    };
    const service = await (await ctx.berth()).services.update(at, { config }, { signal });
    if (io.json) return io.outJson(service);
    const { replicas: now = 1, size: as = "nano", autoscaling: scaled } = service.config;
    const count = scaled ? `${scaled.min} to ${scaled.max}, at ${scaled.targetCpuPercent}% of CPU,` : now;
    io.note(`  ${service.name} runs ${count} × ${as}${addonOf(service.config)}.`);
    return undefined;
  },
});

function addonOf({ storageGib, storageMaxGib, pooler }: ServiceConfig): string {
  const has = storageGib === undefined ? "" : ` with ${storageGib} GiB`;
  const grows = storageMaxGib === undefined ? "" : `, and grows by itself to ${storageMaxGib} GiB`;
  return `${has}${grows}${pooler ? ", with a pooler" : ""}`;
}

function autoscalingOf({ min, max, cpu }: Record<"min" | "max" | "cpu", string | undefined>) {
  const given = {
    ...(min !== undefined && { min: numberOf("--min", min)! }),
    ...(max !== undefined && { max: numberOf("--max", max)! }),
    ...(cpu !== undefined && { targetCpuPercent: numberOf("--cpu", cpu)! }),
  };
  return Object.keys(given).length > 0 ? given : undefined;
}

export const commands = [scale];
