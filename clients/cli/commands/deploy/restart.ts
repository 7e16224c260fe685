import { command } from "../../command.ts";

const restart = command({
  name: "restart",
  summary: "Restart what is live",
  args: "[SERVICE]",
  arity: [0, 1],
  about: ["New replicas with the same image, configuration and variables replace the running ones."],
  examples: [["restart web", "restart the service web"]],
  async run({ args: [service] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service(service);
    const restarted = await (await ctx.berth()).services.restart(at, { signal });
    if (io.json) return io.outJson(restarted);
    io.note(`  ${restarted.name} restarts: berth status --watch`);
    return undefined;
  },
});

export const commands = [restart];
