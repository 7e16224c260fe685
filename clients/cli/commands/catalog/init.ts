import { basename, dirname } from "node:path";
import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";
import { usage } from "../../failure.ts";
import { PROJECT_FILE, writeLink } from "../../project/project-file.ts";

const init = command({
  name: "init",
  summary: "Create a project and link this folder to it",
  args: "[NAME]",
  arity: [0, 1],
  about: [
    "Creates the project, an environment in it (`production`, or -e) and a service (`web`, or -s), as far as they do not exist, and writes .berth.json. That file holds no secret: commit it.",
  ],
  examples: [
    ["init", "a project with the name of this folder"],
    ["init shop", "a project with this name"],
    ["init --type cron --schedule @daily", "what runs once a day"],
    ["init shop -e staging -s jobs --type worker", "with another environment and service"],
  ],
  options: {
    type: {
      kind: "text",
      value: "TYPE",
      about: "Type of the service: web, worker or cron",
      choices: ["web", "worker", "cron"],
    },
    schedule: { kind: "text", value: "SCHEDULE", about: "When a cron service runs: '0 3 * * *', @hourly" },
  },
  async run({ args: [given], options }, ctx) {
    const { io, signal, common } = ctx;
    // A link of a folder above says nothing about the project that is made; this folder's own says in which account.
    const linked = await ctx.linkFile();
    if (linked && dirname(linked) !== process.cwd()) ctx.forgetLink();
    const name = given ?? common.project ?? nameFrom(basename(process.cwd()));
    if (!name) throw usage("The name of this folder cannot be that of a project.", "berth init NAME");
    const berth = await ctx.berth();
    const { origin } = await ctx.session();
    const account = await ctx.at.account();
    const { accountId } = account;
    const done: Record<string, "created" | "found"> = {};
    /** Creates it, or finds what has this name: a run that was interrupted is completed by the next. */
    const ensure = async <T extends { name: string }>(
      noun: string,
      create: () => Promise<T>,
      all: () => Promise<T[]>,
      wanted: string,
    ) => {
      try {
        const made = await create();
        done[noun] = "created";
        return made;
      } catch (error) {
        if (!isRefusal(error, "name_taken")) throw error;
        const found = (await all()).find((each) => each.name === wanted);
        if (!found) throw error;
        done[noun] = "found";
        return found;
      }
    };
    const limit = { limit: 100 };
    const project = await ensure(
      "project",
      () => berth.projects.create({ accountId }, { name }, { signal }),
      () => berth.projects.list({ accountId }, limit, { signal }).all(),
      name,
    );
    const P = { accountId, projectId: project.id };
    const env = common.env ?? "production";
    const environment = await ensure(
      "environment",
      () => berth.environments.create(P, { name: env }, { signal }),
      () => berth.environments.list(P, limit, { signal }).all(),
      env,
    );
    const E = { ...P, environmentId: environment.id };
    const type =
      (options.type as "web" | "worker" | "cron" | undefined) ?? (options.schedule ? "cron" : "web");
    const config = options.schedule ? { schedule: options.schedule } : undefined;
    const wanted = common.service ?? type;
    const service = await ensure(
      "service",
      () => berth.services.create(E, { name: wanted, type, ...(config && { config }) }, { signal }),
      () => berth.services.list(E, limit, { signal }).all(),
      wanted,
    );
    const file = await writeLink(process.cwd(), {
      origin,
      account: { id: accountId, name: account.name },
      project: { id: project.id, name: project.name },
      environment: { id: environment.id, name: environment.name },
      service: service.name,
    });
    if (io.json) return io.outJson({ file, project, environment, service });
    const say = (noun: string, what: string) =>
      io.note(
        `  ${done[noun] === "created" ? "Created" : "Found"} the ${noun} ${io.styleErr("bold", what)}.`,
      );
    say("project", project.name);
    say("environment", environment.name);
    say("service", service.name);
    io.note(`  This folder is linked to it by ${PROJECT_FILE}. Deploy it: berth up`);
  },
});

/** Returns a name that a project can have, from that of a folder. */
function nameFrom(folder: string): string {
  const name = folder
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replace(/^[^a-z]+/, "");
  return name.slice(0, 40);
}

export const commands = [init];
