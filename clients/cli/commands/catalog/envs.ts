import { command } from "../../command.ts";
import { YES } from "../../description.ts";
import { count } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";
import { deleteWithImpact } from "./delete.ts";

const list = command({
  name: "envs",
  summary: "List the environments of a project",
  examples: [["envs -p shop", "names, ids, and when they were created"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.project();
    const data = await (await ctx.berth()).environments.list(at, { limit: 100 }, { signal }).all();
    if (io.json) io.outJson({ data });
    else
      printTable(
        io,
        ["ENVIRONMENT", "ID", "CREATED"],
        data.map(({ name, id, createdAt }) => [name, id, createdAt]),
      );
  },
});

const create = command({
  name: "envs create",
  summary: "Create an environment",
  args: "NAME",
  arity: [1, 1],
  examples: [["envs create staging", "in the linked project"]],
  async run({ args: [name] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.project();
    const environment = await (await ctx.berth()).environments.create(at, { name: name! }, { signal });
    if (io.json) io.outJson(environment);
    else io.note(`  Created the environment ${environment.name} of ${at.name}.`);
  },
});

const apply = command({
  name: "envs apply",
  summary: "Apply what is staged in an environment",
  args: "[ENV]",
  arity: [0, 1],
  about: ["Sets up staged addons, and deploys staged services."],
  examples: [["envs apply", "in the linked environment"]],
  async run({ args: [wanted] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.environment(wanted);
    const result = await (await ctx.berth()).environments.apply(at, { signal });
    if (io.json) io.outJson(result);
    else io.note(`  Applied ${count(result.applied.length, "service")}: berth status --watch`);
  },
});

const remove = command({
  name: "envs delete",
  summary: "Delete an environment, after showing what goes with it",
  args: "ENV",
  arity: [1, 1],
  examples: [["envs delete staging", "shows its services, and asks"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { signal } = ctx;
    const berth = await ctx.berth();
    const { name, ...at } = await ctx.at.environment(wanted);
    await deleteWithImpact(ctx, {
      label: `environment ${name}`,
      yes,
      again: `berth envs delete ${name} --yes`,
      async contents() {
        const services = await berth.services.list(at, { limit: 100 }, { signal }).all();
        return services.map((each) => each.name);
      },
      remove: (confirmImpact) => berth.environments.delete(at, { confirmImpact }, { signal }),
    });
  },
});

export const commands = [list, create, apply, remove];
