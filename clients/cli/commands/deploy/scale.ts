import { command } from "../../command.ts";
import { usage } from "../../failure.ts";
import { numberOf } from "./logs.ts";

const SIZES = ["nano", "small", "medium", "large"] as const;

const scale = command({
  name: "scale",
  summary: "Change replicas and size",
  args: "[REPLICAS]",
  arity: [0, 1],
  about: ["Takes effect on the running release at once. 0 replicas stop the service and keep its address."],
  examples: [
    ["scale 3", "run three replicas"],
    ["scale --size small", "of another size"],
    ["scale 0 -s jobs", "stop the service jobs"],
  ],
  options: { size: { kind: "text", value: "SIZE", about: "nano, small, medium or large", choices: SIZES } },
  async run({ args: [text], options }, ctx) {
    const { io, signal } = ctx;
    const replicas = numberOf("REPLICAS", text);
    const size = options.size as (typeof SIZES)[number] | undefined;
    if (replicas === undefined && !size)
      throw usage("Neither replicas nor a size is given.", "berth scale 2");
    const at = await ctx.at.service();
    const config = { ...(replicas !== undefined && { replicas }), ...(size && { size }) };
    const service = await (await ctx.berth()).services.update(at, { config }, { signal });
    if (io.json) return io.outJson(service);
    const { replicas: now = 1, size: as = "nano" } = service.config;
    io.note(`  ${service.name} runs ${now} × ${as}.`);
    return undefined;
  },
});

export const commands = [scale];
