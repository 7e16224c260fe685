import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type { Run } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { Failure, refused, usage } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";
import { ago, duration, shellQuoted } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";

const POLL_MS = 2_000;
const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600 };

const list = command({
  name: "jobs",
  summary: "List the runs of a service",
  about: ["The newest runs: commands that were started, and what its schedule started."],
  examples: [["jobs -s web", "what ran, and how it ended"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const { data } = await (await ctx.berth()).runs.list(at, { limit: 50 }, { signal }).page();
    if (io.json) return io.outJson({ data });
    if (data.length === 0) return io.note("  Nothing ran yet: berth jobs run -- COMMAND");
    const now = await ctx.now();
    const rows = data.map((run) => [
      run.id,
      painted(ctx, run),
      ago(run.createdAt, now),
      tookOf(run, now),
      io.shown(run.command ?? "(start command)"),
    ]);
    printTable(io, ["RUN", "STATUS", "CREATED", "TOOK", "COMMAND"], rows);
    return undefined;
  },
});

const run = command({
  name: "jobs run",
  summary: "Run a command in the platform, beside a service",
  arity: [0, 0],
  takesCommand: true,
  about: [
    "It runs once with what the live release has: its files, its variables and its size. Its output is shown as it is written, and its exit code is this command's. Several words are one command with its arguments; a single word is a line for a shell. Without a command, a cron service runs its start command now.",
    "A command that runs here, with the variables of a service: berth run.",
  ],
  examples: [
    ["jobs run -- npm run seed", "and wait for its end"],
    ["jobs run -s web --timeout 6h -- 'node import.js && node index.js'", "a line for a shell"],
    ["jobs run --detach -- npm run report", "do not wait"],
  ],
  options: {
    timeout: { kind: "text", value: "TIME", about: "End it after this time: 90s, 30m, 6h; 1h by default" },
    detach: { kind: "flag", short: "d", about: "Return at once" },
  },
  async run({ rest, options: { timeout, detach } }, ctx) {
    const { io, signal } = ctx;
    const timeoutSeconds = secondsOf(timeout);
    const at = await ctx.at.service();
    if (rest.length === 0 && (await (await ctx.berth()).services.get(at, { signal })).type !== "cron")
      throw usage("No command is given.", "berth jobs run -- npm run seed");
    const command = rest.length > 0 ? { command: lineOf(rest) } : {};
    const body = { ...command, ...(timeoutSeconds !== undefined && { timeoutSeconds }) };
    const started = await (await ctx.berth()).runs.create(at, body, { signal });
    if (!detach) return follow(ctx, at, started);
    if (io.json) io.outJson(started);
    else
      io.out(`${started.id} of ${at.service} is accepted: berth jobs logs ${started.id} -s ${at.service} -f`);
    return 0;
  },
});

const schedule = command({
  name: "jobs schedule",
  summary: "Set when a cron service runs",
  args: "SCHEDULE",
  arity: [1, 1],
  about: [
    "Five fields (minute, hour, day of the month, month, day of the week), or @hourly, @daily, @weekly, @monthly. It takes effect at once. An empty one pauses the service.",
  ],
  examples: [
    ["jobs schedule '30 2 * * *' --time-zone Europe/Berlin", "every night"],
    ["jobs schedule ''", "pause"],
  ],
  options: {
    "time-zone": { kind: "text", value: "ZONE", about: "An IANA time zone, such as Europe/Berlin" },
  },
  async run({ args: [wanted = ""], options }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const timeZone = options["time-zone"];
    const config = { schedule: wanted, ...(timeZone && { timeZone }) };
    const service = await (await ctx.berth()).services.update(at, { config }, { signal });
    if (io.json) return io.outJson(service);
    const { nextRunAt } = service;
    if (wanted === "") io.note(`  ${at.service} is paused.`);
    else if (nextRunAt) io.note(`  The next run of ${at.service} is at ${nextRunAt}.`);
    else io.note(`  ${at.service} runs by it once it is deployed.`);
    return undefined;
  },
});

const logs = command({
  name: "jobs logs",
  summary: "Show the output of a run",
  args: "[RUN]",
  arity: [0, 1],
  about: ["Without a run: the newest one. With -f, until it ends, and its exit code is this command's."],
  examples: [["jobs logs -f", "the newest run"]],
  options: { follow: { kind: "flag", short: "f", about: "Show further lines as they are written" } },
  async run({ args: [wanted], options }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const { runs } = await ctx.berth();
    const found = wanted === undefined ? await newest(ctx, at) : await runs.get(at, wanted, { signal });
    if (options.follow) return follow(ctx, at, found);
    const log = await runs.logs(at, found.id, { signal });
    if (io.json) io.outJson(log);
    else show(ctx, log.logs);
    if (log.truncated) io.note("  Later output was not kept.");
    return 0;
  },
});

const cancel = command({
  name: "jobs cancel",
  summary: "Cancel a run",
  args: "[RUN]",
  arity: [0, 1],
  about: ["Without a run: the newest one. What it has done stays."],
  examples: [["jobs cancel", "the newest run"]],
  async run({ args: [wanted] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service();
    const id = wanted ?? (await newest(ctx, at)).id;
    const canceled = await (await ctx.berth()).runs.cancel(at, id, { signal });
    if (io.json) io.outJson(canceled);
    else io.note(`  ${id} is canceled.`);
  },
});

/** Shows the output of a run until it ends. Returns its exit code. */
async function follow(ctx: Context, at: ServiceAddress, { id }: Run): Promise<number> {
  ctx.sayWhenCanceled(
    `${id} continues without this terminal.`,
    `Follow it: berth jobs logs ${id} -s ${at.service} -f`,
    `Cancel it: berth jobs cancel ${id} -s ${at.service}`,
  );
  const { runs } = await ctx.berth();
  const { signal } = ctx;
  try {
    for await (const { event, data } of runs.followLogs(at, id, { signal }))
      if (event === "piece" && !ctx.io.json) show(ctx, (data as { logs: string }).logs);
  } catch (error) {
    // No stream is left for the user: the log comes as a whole at the end.
    if (!isRefusal(error, "rate_limited")) throw error;
    for (;;) {
      const log = await runs.logs(at, id, { signal });
      if (!log.live) {
        if (!ctx.io.json) show(ctx, log.logs);
        break;
      }
      await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
  return conclude(ctx, at, await runs.get(at, id, { signal }));
}

function conclude({ io }: Context, at: ServiceAddress, run: Run): number {
  if (io.json) io.outJson(run);
  if (run.exitCode !== undefined && ["succeeded", "failed"].includes(run.status)) {
    if (run.message) io.note(`  ${io.shown(run.message)}`);
    return run.exitCode;
  }
  const why = run.message ?? (run.status === "canceled" ? "It was canceled." : "No reason was given.");
  throw new Failure("refused", `${run.id}: ${why}`, `berth jobs -s ${at.service}`, `run_${run.status}`);
}

async function newest(ctx: Context, at: ServiceAddress): Promise<Run> {
  const { data } = await (await ctx.berth()).runs.list(at, { limit: 1 }, { signal: ctx.signal }).page();
  if (data[0]) return data[0];
  throw refused(`Nothing ran in ${at.service} yet.`, "berth jobs run -- COMMAND", "not_found");
}

function show({ io }: Context, text: string): void {
  const lines = text.endsWith("\n") ? text.slice(0, -1) : text;
  if (lines !== "") for (const line of lines.split("\n")) io.out(io.shown(line));
}

/** Returns the line for a shell that runs what was typed after `--`. */
function lineOf(words: string[]): string {
  if (words.length === 1) return words[0]!;
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : shellQuoted(word))).join(" ");
}

function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, number, unit] = /^(\d{1,9})([smh])?$/.exec(text) ?? [];
  if (number === undefined)
    throw usage(`--timeout is a time such as 90s, 30m or 6h, not ${JSON.stringify(text)}.`);
  return numberOf("--timeout", number)! * UNIT_SECONDS[unit ?? "s"]!;
}

function painted({ io }: Context, { status, exitCode }: Run): string {
  if (status === "succeeded") return io.style("green", status);
  if (status === "failed" && exitCode !== undefined) return io.style("red", `failed (${exitCode})`);
  return io.style(["failed", "timed_out", "lost"].includes(status) ? "red" : "yellow", status);
}

function tookOf({ startedAt, finishedAt }: Run, now: number): string {
  if (startedAt === undefined) return "–";
  return duration((finishedAt === undefined ? now : Date.parse(finishedAt)) - Date.parse(startedAt));
}

export const commands = [list, run, schedule, logs, cancel];
