import { isRefusal } from "../../../typescript/src/errors.ts";
import { command } from "../../command.ts";
import { refused } from "../../failure.ts";
import { PROJECT_FILE, writeLink } from "../../project/project-file.ts";
import { choose } from "../../terminal/prompt.ts";

const link = command({
  name: "link",
  summary: "Link this folder to a service that exists",
  about: [
    "Writes .berth.json, so that commands in this folder and below need no -p, -e and -s. What the options leave open is asked, or chosen where there is only one.",
  ],
  examples: [
    ["link", "choose from what exists"],
    ["link -p shop -e production -s web", "without questions"],
  ],
  async run(_input, ctx) {
    const { io, signal, common } = ctx;
    ctx.forgetLink();
    const berth = await ctx.berth();
    const { origin } = await ctx.session();
    const again = "berth link -p PROJECT -e ENV -s SERVICE";
    const limit = { limit: 100 };
    async function one<T extends { id: string; name: string }>(
      noun: string,
      all: T[],
      wanted?: string,
    ): Promise<T> {
      const found = wanted && all.find(({ id, name }) => id === wanted || name === wanted);
      if (found) return found;
      const names = all.map(({ name }) => name).join(", ");
      if (wanted)
        throw refused(`There is no ${noun} ${JSON.stringify(wanted)}. There are: ${names || "none"}.`, again);
      if (all.length === 0) throw refused(`There is no ${noun} to link to.`, "berth init NAME");
      if (all.length === 1) return all[0]!;
      return choose(
        io,
        noun,
        all.map((each) => ({ name: each.name, value: each })),
        again,
      );
    }
    const accounts = await berth.accounts.list(limit, { signal }).all();
    const account = await one(
      "account",
      accounts.map(({ id, handle }) => ({ id, name: handle })),
      common.account,
    );
    const A = { accountId: account.id };
    const project = await one(
      "project",
      await berth.projects.list(A, limit, { signal }).all(),
      common.project,
    );
    const P = { ...A, projectId: project.id };
    const environment = await one(
      "environment",
      await berth.environments.list(P, limit, { signal }).all(),
      common.env,
    );
    const E = { ...P, environmentId: environment.id };
    const services = await berth.services
      .list(E, limit, { signal })
      .all()
      .catch((error: unknown) => {
        if (isRefusal(error, "not_found")) return [];
        throw error;
      });
    const own = services.filter(({ type }) => type !== "postgres" && type !== "redis");
    // A new environment has no service yet: it is linked as well.
    const service =
      own.length === 0 && !common.service ? undefined : await one("service", own, common.service);
    const file = await writeLink(process.cwd(), {
      origin,
      account: { id: account.id, name: account.name },
      project: { id: project.id, name: project.name },
      environment: { id: environment.id, name: environment.name },
      ...(service && { service: service.name }),
    });
    if (io.json) return io.outJson({ file, project, environment, ...(service && { service }) });
    const names = [project.name, environment.name, service?.name].filter(Boolean);
    io.note(`  This folder is linked to ${io.styleErr("bold", names.join(" / "))} by ${PROJECT_FILE}.`);
    if (!service) io.note("  It has no service yet: berth services create web");
  },
});

export const commands = [link];
