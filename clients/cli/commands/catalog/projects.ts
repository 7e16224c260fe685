import { command } from "../../command.ts";
import { YES } from "../../description.ts";
import { count } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";
import { deleteWithImpact } from "./delete.ts";

const list = command({
  name: "projects",
  summary: "List the projects of the account",
  examples: [["projects", "names, ids, and when they were created"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const data = await (await ctx.berth()).projects.list({ accountId }, { limit: 100 }, { signal }).all();
    if (io.json) io.outJson({ data });
    else
      printTable(
        io,
        ["PROJECT", "ID", "CREATED"],
        data.map(({ name, id, createdAt }) => [name, id, createdAt]),
      );
  },
});

const create = command({
  name: "projects create",
  summary: "Create a project",
  args: "NAME",
  arity: [1, 1],
  about: ["berth init creates an environment and a service too, and links this folder."],
  examples: [["projects create shop", "an empty project"]],
  async run({ args: [name] }, ctx) {
    const { io, signal } = ctx;
    const { accountId } = await ctx.at.account();
    const project = await (await ctx.berth()).projects.create({ accountId }, { name: name! }, { signal });
    if (io.json) io.outJson(project);
    else io.note(`  Created the project ${project.name}: berth envs create production -p ${project.name}`);
  },
});

/** Of so many environments the services are counted, with a request for each. */
const FEW = 20;

const remove = command({
  name: "projects delete",
  summary: "Delete a project, after showing what goes with it",
  args: "PROJECT",
  arity: [1, 1],
  examples: [["projects delete shop", "shows its environments and services, and asks"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { signal } = ctx;
    const berth = await ctx.berth();
    const { name, ...at } = await ctx.at.project(wanted);
    await deleteWithImpact(ctx, {
      label: `project ${name}`,
      yes,
      again: `berth projects delete ${name} --yes`,
      async contents() {
        const environments = await berth.environments.list(at, { limit: 100 }, { signal }).all();
        if (environments.length > FEW)
          return [count(environments.length, "environment"), "all their services"];
        const services = await Promise.all(
          environments.map(({ id }) =>
            berth.services.list({ ...at, environmentId: id }, { limit: 100 }, { signal }).all(),
          ),
        );
        const total = services.flat().length;
        return total + environments.length > 0
          ? [count(environments.length, "environment"), count(total, "service")]
          : [];
      },
      remove: (confirmImpact) => berth.projects.delete(at, { confirmImpact }, { signal }),
    });
  },
});

export const commands = [list, create, remove];
