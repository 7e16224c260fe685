import type { ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { YES } from "../../description.ts";
import { refused } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";
import { clean } from "../../terminal/clean.ts";
import { ago } from "../../terminal/format.ts";
import { confirm } from "../../terminal/prompt.ts";
import { finish, printDryRun } from "./follow.ts";

const rollback = command({
  name: "rollback",
  summary: "Deploy an earlier version again",
  args: "[VERSION]",
  arity: [0, 1],
  about: [
    "Without a version: the newest one before the live one that was healthy. Image and configuration become those of that version; variables stay as they are now. Shows what changes, and asks.",
  ],
  examples: [
    ["rollback", "to the version before"],
    ["rollback 5 --yes", "to version 5, without a question"],
    ["rollback 5 --dry-run", "show what would change"],
  ],
  options: {
    yes: YES,
    detach: { kind: "flag", short: "d", about: "Do not wait: print the version and end" },
    "dry-run": { kind: "flag", about: "Show what would change, and change nothing" },
  },
  async run({ args: [text], options }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const berth = await ctx.berth();
    const version = numberOf("VERSION", text?.replace(/^v/, "")) ?? (await before(ctx, at));
    const dry = await berth.deployments.rollback(at, { version, dryRun: true }, { signal });
    if (options["dry-run"] && io.json) io.outJson(dry);
    else {
      const { image, commit, createdAt } = await berth.deployments.get(at, version, { signal });
      const what = [image ?? commit, ago(createdAt, await ctx.now())].filter(Boolean).join(", ");
      io.note(`  Back to v${version} (${clean(what)}). Variables stay as they are now.`);
      printDryRun(ctx, dry);
    }
    if (!dry.eligible)
      throw refused(
        dry.refusal?.message ?? "It would be refused.",
        "berth status --deployments",
        dry.refusal?.code,
      );
    if (options["dry-run"]) return 0;
    await confirm(io, "Continue?", options.yes, `berth rollback ${version} --yes`);
    return finish(ctx, at, await berth.deployments.rollback(at, { version }, { signal }), options.detach);
  },
});

/** Returns the newest version before the live one that was healthy. */
async function before(ctx: Context, at: ServiceAddress): Promise<number> {
  const berth = await ctx.berth();
  const { signal } = ctx;
  const { liveVersion = Number.POSITIVE_INFINITY } = await berth.services.get(at, { signal });
  for await (const { version, healthyAt } of berth.deployments.list(at, { limit: 100 }, { signal }))
    if (healthyAt && version < liveVersion) return version;
  throw refused(`${at.service} has no earlier version that was healthy.`, "berth status --deployments");
}

export const commands = [rollback];
