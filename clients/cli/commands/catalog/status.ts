import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type { Deployment, Service, ServiceState } from "../../../typescript/src/generated/types.ts";
import type { EnvironmentAddress, ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { isUnknownEndpoint } from "../../report.ts";
import { ago } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";

const WATCH_MS = 2_000;

const status = command({
  name: "status",
  summary: "Show the services of an environment",
  about: [
    "With --deployments, the newest deployments of one service. With --watch, again whenever something has changed, until Ctrl-C; with --json then one line for each change.",
  ],
  examples: [
    ["status", "of the linked environment"],
    ["status --watch", "and what changes"],
    ["status --deployments -s web", "the newest versions of web"],
  ],
  options: {
    watch: { kind: "flag", short: "w", about: "Show changes until Ctrl-C" },
    deployments: { kind: "flag", short: "d", about: "Show the newest deployments of the service" },
  },
  async run({ options: { watch, deployments } }, ctx) {
    const at = deployments ? await ctx.at.service() : await ctx.at.environment();
    const title = "service" in at ? "" : `${(await ctx.at.project()).name} / ${at.name}`;
    const read = "service" in at ? () => readDeployments(ctx, at) : () => readServices(ctx, at, title);
    let last = "";
    const show = ({ data, print }: Shown) => {
      const text = JSON.stringify(data);
      if (text === last) return;
      last = text;
      if (watch && ctx.io.stdoutIsTerminal && !ctx.io.json) ctx.io.raw("\x1b[H\x1b[2J");
      if (ctx.io.json) ctx.io.outJson({ data });
      else print();
    };
    // The stream has what the table shows, not all of a service that JSON has, nor deployments that are over.
    const isWhole = !ctx.io.json && !("service" in at);
    if (watch)
      await followServices(ctx, at, async (services) =>
        show(isWhole ? tableOf(ctx, title, services.map(rowOf)) : await read()),
      );
    for (;;) {
      show(await read());
      if (!watch) return;
      await delay(WATCH_MS, undefined, { signal: ctx.signal }).catch(() => ctx.signal.throwIfAborted());
    }
  },
});

type Shown = { data: unknown[]; print: () => void };
type Row = Pick<
  Service,
  | "name"
  | "type"
  | "status"
  | "statusMessage"
  | "url"
  | "pendingChanges"
  | "liveVersion"
  | "nextRunAt"
  | "lastRun"
>;

const rowOf = ({ release, ...service }: ServiceState): Row => ({
  ...service,
  liveVersion: release?.version,
});

/** Shows each change; returns where nothing can be followed: an older server, or no stream left for the user. */
async function followServices(
  ctx: Context,
  at: EnvironmentAddress,
  show: (services: ServiceState[]) => Promise<void>,
): Promise<void> {
  const berth = await ctx.berth();
  try {
    for await (const { services } of berth.environments.follow(at, { signal: ctx.signal }))
      await show(services);
  } catch (error) {
    if (!isRefusal(error, "rate_limited") && !(isRefusal(error) && isUnknownEndpoint(error))) throw error;
  }
}

async function readServices(ctx: Context, at: EnvironmentAddress, title: string): Promise<Shown> {
  const berth = await ctx.berth();
  const all = await berth.services.list(at, { limit: 100 }, { signal: ctx.signal }).all();
  const sorted = all.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return tableOf(ctx, title, sorted);
}

function tableOf(ctx: Context, title: string, data: Row[]): Shown {
  const { io } = ctx;
  return {
    data,
    print() {
      io.note(`  ${title}`);
      if (data.length === 0) return io.note("  There are no services yet: berth services create web");
      const rows = data.map((each) => [
        each.name,
        each.type,
        painted(ctx, each.status),
        each.liveVersion === undefined ? "–" : `v${each.liveVersion}`,
        io.shown(each.url ?? ""),
      ]);
      printTable(io, ["SERVICE", "TYPE", "STATUS", "LIVE", "ADDRESS"], rows);
      // Beneath the table, which is cut at the edge of a terminal.
      for (const { name, statusMessage } of data)
        if (statusMessage) io.note(`  ${name}: ${io.shown(statusMessage)}`);
      for (const { name, nextRunAt, lastRun } of data) {
        const last = lastRun ? `, the last one: ${lastRun.status}` : "";
        if (nextRunAt) io.note(`  ${name}: next run at ${nextRunAt}${last}`);
      }
      const pending = data.filter(({ pendingChanges }) => pendingChanges).map(({ name }) => name);
      if (pending.length > 0) io.note(`  Changes wait for the next deployment of ${pending.join(", ")}.`);
    },
  };
}

/** A word as well as a colour; one that this berth does not know is shown as it is. */
function painted({ io }: Context, word: Service["status"] | Deployment["status"]): string {
  const good = ["running", "applied"].includes(word);
  const bad = ["crashed", "failed", "degraded"].includes(word);
  return good ? io.style("green", word) : bad ? io.style("red", word) : io.style("yellow", word);
}

async function readDeployments(ctx: Context, at: ServiceAddress): Promise<Shown> {
  const { io, signal } = ctx;
  const berth = await ctx.berth();
  const { data } = await berth.deployments.list(at, { limit: 20 }, { signal }).page();
  const { liveVersion } = await berth.services.get(at, { signal });
  const isKnown = data.some(({ createdBy }) => createdBy !== undefined);
  const members = isKnown ? await berth.members.list(at, { limit: 100 }, { signal }).all() : [];
  const names = new Map(members.map(({ userId, displayName }) => [userId, displayName]));
  const now = await ctx.now();
  return {
    data,
    print() {
      if (data.length === 0) return io.note(`  ${at.service} was never deployed: berth up`);
      const rows = data.map((each) => [
        `v${each.version}${each.version === liveVersion ? " live" : ""}`,
        painted(ctx, each.status),
        each.healthyAt ? "healthy" : "–",
        ago(each.createdAt, now),
        io.shown(byOf(each, names)),
        io.shown(each.errors[0]?.message ?? each.commit ?? each.image ?? sourceOf(each)),
      ]);
      printTable(io, ["VERSION", "STATUS", "HEALTH", "CREATED", "BY", "SOURCE"], rows);
    },
  };
}

/** Returns who made a deployment: the name of a member, else the id. */
function byOf({ createdBy }: Deployment, names: Map<string, string>): string {
  if (!createdBy) return "–";
  const { kind, id } = createdBy;
  if (kind === "service") return "Berth";
  const name = names.get(id) ?? id;
  return kind === "machine" ? `an application of ${name}` : name;
}

function sourceOf({ archiveRef, builtVersion }: Deployment): string {
  if (builtVersion !== undefined) return `build of v${builtVersion}`;
  return archiveRef ? "upload" : "";
}

export const commands = [status];
