import { command } from "../../command.ts";
import { timeOf } from "../../option-values.ts";
import { ADDON_OPTIONS, addonConfigOf } from "./addon-options.ts";
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
    ["fork db --name db18 --version 18", "beside it, of another version, where there is one"],
    ["fork db --name db-2 --at 2026-11-25T09:00Z", "with the data of then, where the addon has an archive"],
  ],
  options: {
    to: { kind: "text", value: "ENV", about: "Environment of the new one; that of ADDON by default" },
    name: { kind: "text", value: "NAME", about: "Its name; that of ADDON by default" },
    backup: { kind: "text", value: "BACKUP", about: "Backup whose data it gets" },
    at: {
      kind: "text",
      value: "TIME",
      about: "Moment whose data it gets: 10m, 2h, 3d ago, or a time as 2026-11-25T09:00Z",
    },
    version: ADDON_OPTIONS.version,
    storage: { ...ADDON_OPTIONS.storage, about: "Its storage in GiB; as much as ADDON was given by default" },
    "storage-max": ADDON_OPTIONS["storage-max"],
    pooler: ADDON_OPTIONS.pooler,
    detach: { kind: "flag", short: "d", about: "Return at once" },
  },
  async run({ args: [source], options }, ctx) {
    const { to, name = source!, backup, at: wanted, detach } = options;
    const { signal } = ctx;
    const config = addonConfigOf(options);
    const berth = await ctx.berth();
    const addon = { ...(await ctx.at.environment()), service: source! };
    const { id, type } = await berth.services.get(addon, { signal });
    const at = await timeOf(ctx, addon, "--at", wanted);
    const { name: _, ...target } = await ctx.at.environment(to);
    const from = { service: id, ...(backup !== undefined && { backup }), ...(at && { at }) };
    const made = await berth.services.create(
      target,
      { name, type, from, ...(config && { config }) },
      { signal },
    );
    await untilFilled(ctx, { ...target, service: name }, made, { from: source!, detach });
  },
});

export const commands = [fork];
