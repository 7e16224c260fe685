import { command } from "../../command.ts";
import { untilFilled } from "./until-filled.ts";

const fork = command({
  name: "fork",
  summary: "Make another addon with the data of one",
  args: "ADDON",
  arity: [1, 1],
  about: ["The data is that of its newest backup, which is made first if there is none."],
  examples: [
    ["fork db --to staging", "in another environment, with the same name"],
    ["fork db --name db-2 --backup bkp_01k9…", "beside it, from an older backup"],
  ],
  options: {
    to: { kind: "text", value: "ENV", about: "Environment of the new one; that of ADDON by default" },
    name: { kind: "text", value: "NAME", about: "Its name; that of ADDON by default" },
    backup: { kind: "text", value: "BACKUP", about: "Backup whose data it gets" },
    detach: { kind: "flag", short: "d", about: "Return at once" },
  },
  async run({ args: [source], options: { to, name = source!, backup, detach } }, ctx) {
    const { signal } = ctx;
    const berth = await ctx.berth();
    const { id, type } = await berth.services.get(
      { ...(await ctx.at.environment()), service: source! },
      { signal },
    );
    const { name: _, ...target } = await ctx.at.environment(to);
    const from = { service: id, ...(backup !== undefined && { backup }) };
    const made = await berth.services.create(target, { name, type, from }, { signal });
    await untilFilled(ctx, { ...target, service: name }, made, { from: source!, detach });
  },
});

export const commands = [fork];
