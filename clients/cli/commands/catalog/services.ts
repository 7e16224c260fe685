import type { ServiceConfig } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import { YES } from "../../description.ts";
import { printTable } from "../../terminal/table.ts";
import { ADDON_OPTIONS, addonConfigOf, commandToConnect } from "../addons/addon-options.ts";
import { SIZES, type Size } from "../deploy/scale.ts";
import { deleteWithImpact } from "./delete.ts";

const TYPES = ["web", "worker", "cron", "postgres", "redis"] as const;

const list = command({
  name: "services",
  summary: "List the services of an environment",
  examples: [["services", "with type, status, size and address"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.environment();
    const data = await (await ctx.berth()).services.list(at, { limit: 100 }, { signal }).all();
    if (io.json) return io.outJson({ data });
    const rows = data.map(({ name, type, status, config, url }) => [
      name,
      type,
      status,
      [config.replicas !== undefined && `${config.replicas} ×`, config.size].filter(Boolean).join(" "),
      io.shown(url ?? ""),
    ]);
    printTable(io, ["SERVICE", "TYPE", "STATUS", "SIZE", "ADDRESS"], rows);
    return undefined;
  },
});

const create = command({
  name: "services create",
  summary: "Create a service or an addon",
  args: "NAME",
  arity: [1, 1],
  about: [
    "web, worker and cron run your code, cron at the times of a schedule; postgres and redis are addons. What an addon publishes reaches services by a variable: berth vars set DATABASE_URL --connection db.URL --scope environment",
  ],
  examples: [
    ["services create web", "a web service"],
    ["services create report --type cron --schedule '0 3 * * *'", "runs every night"],
    ["services create db --type postgres", "a database"],
    ["services create db --type postgres --version 17 --storage 20", "of this version, with 20 GiB"],
    ["services create web --git https://git.example.com/acme/shop.git", "deployed from a git branch"],
  ],
  options: {
    type: {
      kind: "text",
      short: "t",
      value: "TYPE",
      about: "web, worker, cron, postgres or redis; web by default",
      choices: TYPES,
    },
    image: { kind: "text", value: "IMAGE", about: "Image that berth deploy deploys" },
    git: { kind: "text", value: "URL", about: "Repository that berth deploy builds" },
    branch: { kind: "text", value: "BRANCH", about: "Its branch; main by default" },
    health: { kind: "text", value: "PATH", about: "Path that must answer before a release is healthy" },
    command: { kind: "text", value: "COMMAND", about: "Shell command that starts it" },
    schedule: { kind: "text", value: "SCHEDULE", about: "When a cron service runs: '0 3 * * *', @hourly" },
    "time-zone": { kind: "text", value: "ZONE", about: "Time zone of the schedule; UTC by default" },
    size: {
      kind: "text",
      value: "SIZE",
      about: "nano, small, medium or large; nano by default",
      choices: SIZES,
    },
    ...ADDON_OPTIONS,
    private: { kind: "flag", about: "No address: only services of its environment reach it" },
    staged: { kind: "flag", about: "Wait for berth envs apply" },
  },
  async run({ args: [name], options }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.environment();
    const config: ServiceConfig = {
      ...(options.health && { healthCheckPath: options.health }),
      ...(options.private && { public: false }),
      ...(options.command && { command: options.command }),
      ...(options.schedule && { schedule: options.schedule }),
      ...(options["time-zone"] && { timeZone: options["time-zone"] }),
      ...(options.size && { size: options.size as Size }),
      ...addonConfigOf(options),
    };
    const source = {
      ...(options.image && { image: options.image }),
      ...(options.git && { git: { repository: options.git, branch: options.branch ?? "main" } }),
    };
    const type = (options.type as (typeof TYPES)[number] | undefined) ?? "web";
    const body = {
      name: name!,
      type,
      ...(Object.keys(source).length > 0 && { source }),
      ...(Object.keys(config).length > 0 && { config }),
      ...(options.staged && { staged: true }),
    };
    const service = await (await ctx.berth()).services.create(at, body, { signal });
    if (io.json) return io.outJson(service);
    const next =
      type !== "postgres" && type !== "redis"
        ? `berth ${options.git || options.image ? "deploy" : "up"} -s ${name}`
        : commandToConnect(service);
    io.note(`  Created the ${type} ${service.name} of ${at.name}: ${next}`);
    return undefined;
  },
});

const remove = command({
  name: "services delete",
  summary: "Delete a service, after showing what goes with it",
  args: "SERVICE",
  arity: [1, 1],
  examples: [["services delete web", "shows whether it is live, and asks"]],
  options: { yes: YES },
  async run({ args: [wanted], options: { yes } }, ctx) {
    const { signal } = ctx;
    const berth = await ctx.berth();
    const at = await ctx.at.service(wanted);
    await deleteWithImpact(ctx, {
      label: `service ${at.service}`,
      yes,
      again: `berth services delete ${at.service} --yes`,
      async contents() {
        const { status, url } = await berth.services.get(at, { signal });
        return [`status ${status}`, ...(url ? [url] : [])];
      },
      remove: (confirmImpact) => berth.services.delete(at, { confirmImpact }, { signal }),
    });
  },
});

export const commands = [list, create, remove];
