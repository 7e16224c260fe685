import { command } from "../../command.ts";
import { Failure } from "../../failure.ts";
import { finish, printDryRun } from "./follow.ts";

const deploy = command({
  name: "deploy",
  summary: "Deploy an image, a git branch, or what is live",
  args: "[SERVICE]",
  arity: [0, 1],
  about: [
    "Without --image: the newest commit of the configured git branch, else the configured image, else what is live again. The exit code is the verdict, as of berth up.",
  ],
  examples: [
    ["deploy --image ghcr.io/acme/web:1.4.2", "deploy this image"],
    ["deploy", "build the git branch, or deploy again"],
    ["deploy --image acme/web:2 --dry-run", "show what would change"],
  ],
  options: {
    image: { kind: "text", short: "i", value: "IMAGE", about: "Image to deploy" },
    detach: { kind: "flag", short: "d", about: "Do not wait: print the version and end" },
    "dry-run": { kind: "flag", about: "Show what would change, and change nothing" },
  },
  async run({ args: [service], options }, ctx) {
    const at = await ctx.at.service(service);
    const berth = await ctx.berth();
    const { signal, io } = ctx;
    const body = options.image ? { image: options.image } : {};
    if (options["dry-run"]) {
      const found = await berth.deployments.deploy(at, { ...body, dryRun: true }, { signal });
      if (io.json) io.outJson(found);
      else printDryRun(ctx, found);
      if (!found.eligible) throw new Failure("refused", found.refusal?.message ?? "It would be refused.");
      return 0;
    }
    return finish(ctx, at, await berth.deployments.deploy(at, body, { signal }), options.detach);
  },
});

export const commands = [deploy];
