import { command } from "../../command.ts";
import { refused } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";

const cancel = command({
  name: "cancel",
  summary: "Cancel a deployment",
  args: "[VERSION]",
  arity: [0, 1],
  about: ["Without a version: the newest deployment. What is live stays live."],
  examples: [
    ["cancel", "the deployment under way"],
    ["cancel 7", "version 7"],
  ],
  async run({ args: [text] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const berth = await ctx.berth();
    let version = numberOf("VERSION", text?.replace(/^v/, ""));
    if (version === undefined) {
      const { data } = await berth.deployments.list(at, { limit: 1 }, { signal }).page();
      const [newest] = data;
      if (!newest || !["queued", "building", "built"].includes(newest.status))
        throw refused(`No deployment of ${at.service} is under way.`, "berth status --deployments");
      version = newest.version;
    }
    const deployment = await berth.deployments.cancel(at, version, { signal });
    if (io.json) return io.outJson(deployment);
    io.note(`  v${version} of ${at.service} is canceled.`);
    return undefined;
  },
});

export const commands = [cancel];
