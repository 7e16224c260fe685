import type { LogLine } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused, usage } from "../../failure.ts";
import { numberOf, timeOf } from "../../option-values.ts";

const DEFAULT_LINES = 100;
const PAGE = 1_000;
/** How far back a filter looks at most, so that it ends. */
const SEARCHED = 20 * PAGE;

const logs = command({
  name: "logs",
  summary: "Show what a service logs, or a build",
  args: "[SERVICE]",
  arity: [0, 1],
  about: [
    "Shows the newest lines, oldest first. With -f, also those that follow, across deployments, until Ctrl-C.",
    `A filter shows the newest lines that match; without -f it looks at the newest ${SEARCHED} lines.`,
  ],
  examples: [
    ["logs -f", "what the service logs from now on"],
    ["logs web -n 500 --since 2h --grep 'error|timeout'", "what went wrong in the last two hours"],
    ["logs --build 7", "how version 7 was built"],
  ],
  options: {
    follow: { kind: "flag", short: "f", about: "Show further lines as they are written" },
    lines: { kind: "text", short: "n", value: "N", about: `How many lines; ${DEFAULT_LINES} by default` },
    since: {
      kind: "text",
      value: "TIME",
      about: "Lines from then on: 30s, 10m, 2h, 3d, or a time as 2026-11-25T09:00Z",
    },
    grep: { kind: "text", value: "PATTERN", about: "Lines that match a regular expression" },
    stream: { kind: "text", value: "STREAM", about: "stdout or stderr", choices: ["stdout", "stderr"] },
    version: { kind: "text", value: "N", about: "Lines of this version" },
    build: { kind: "text", value: "N", about: "The build log of version N, or of `latest`" },
  },
  async run({ args: [service], options }, ctx) {
    const at = await ctx.at.service(service);
    const matches = patternOf(options.grep);
    const wanted = numberOf("--lines", options.lines) ?? DEFAULT_LINES;
    if (options.build) return showBuild(ctx, at, options.build, options.follow, matches);
    const since = await timeOf(ctx, at, "--since", options.since);
    const version = numberOf("--version", options.version);
    const stream = options.stream as "stdout" | "stderr" | undefined;
    const query = {
      ...(version !== undefined && { version }),
      ...(stream && { stream }),
      ...(since && { since }),
    };
    const print = printer(ctx);
    const berth = await ctx.berth();
    const { signal } = ctx;
    if (options.follow) {
      let lost = false;
      const onReconnect = () => {
        if (!lost) ctx.io.note("  The connection was lost; reconnecting …");
        lost = true;
      };
      const limit = Math.min(Math.max(wanted, 1), PAGE);
      const events = berth.logs.follow(at, { ...query, limit }, { signal, onReconnect });
      for await (const { data } of events) {
        lost = false;
        if (matches(data.message)) print(data);
      }
      return;
    }
    if (wanted === 0) return;
    const found: LogLine[] = [];
    let looked = 0;
    const limit = options.grep ? PAGE : Math.min(wanted, PAGE);
    for await (const line of berth.logs.list(at, { ...query, limit }, { signal })) {
      if (matches(line.message) && found.push(line) >= wanted) break;
      if (++looked >= SEARCHED) break;
    }
    for (const line of found.toReversed()) print(line);
  },
});

function printer({ io }: Context): (line: LogLine) => void {
  return (line) => {
    if (io.json) return io.raw(`${JSON.stringify(line)}\n`);
    const { timestamp, message, stream } = line;
    const text = io.shown(message);
    io.out(
      `${io.style("dim", timestamp)} ${stream === "stderr" && !io.colors.out ? text : stream === "stderr" ? io.style("red", text) : text}`,
    );
  };
}

async function showBuild(
  ctx: Context,
  at: ServiceAddress,
  wanted: string,
  follow: boolean,
  matches: (text: string) => boolean,
): Promise<void> {
  const { io, signal } = ctx;
  const berth = await ctx.berth();
  const version = wanted === "latest" ? await latest(ctx, at) : numberOf("--build", wanted)!;
  const show = (text: string) => {
    for (const line of text.split("\n").filter((each) => each !== "" && matches(each))) {
      if (io.json) io.raw(`${JSON.stringify({ version, message: line })}\n`);
      else io.out(io.shown(line));
    }
  };
  if (!follow) return show((await berth.deployments.buildLogs(at, version, { signal })).logs);
  for await (const { event, data } of berth.deployments.followBuildLogs(at, version, { signal })) {
    if (event === "piece") show((data as { logs: string }).logs);
    if (event === "restart") io.note("  The build started over.");
  }
}

async function latest(ctx: Context, at: ServiceAddress): Promise<number> {
  const berth = await ctx.berth();
  const { data } = await berth.deployments.list(at, { limit: 100 }, { signal: ctx.signal }).page();
  const built = data.find(({ buildId, builtVersion }) => buildId !== undefined && builtVersion === undefined);
  if (!built) throw refused(`Nothing was built for ${at.service} recently.`, "berth status --deployments");
  return built.version;
}

function patternOf(text: string | undefined): (line: string) => boolean {
  if (text === undefined) return () => true;
  try {
    const pattern = new RegExp(text, "u");
    return (line) => pattern.test(line);
  } catch {
    throw usage(`--grep is no regular expression: ${text}`, "berth logs --grep 'error|timeout'");
  }
}

export const commands = [logs];
