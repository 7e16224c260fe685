import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Service } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";
import { printTable } from "../../terminal/table.ts";
import { serverOf } from "./addon-options.ts";
import { stats } from "./addon-stats.ts";
import { LOOPBACK, type OpenPort, openPort } from "./port.ts";

const list = command({
  name: "addons",
  summary: "List the addons of an environment",
  examples: [["addons", "with type, status, size, version and storage"]],
  async run(_input, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.environment();
    const { services } = await ctx.berth();
    const all = await services.list(at, { limit: 100 }, { signal }).all();
    const addons = all.filter(({ type }) => type === "postgres" || type === "redis");
    // Only an addon that is read by itself says what its server is.
    const data = await Promise.all(
      addons.map(({ name }) => services.get({ ...at, service: name }, { signal })),
    );
    if (io.json) return io.outJson({ data });
    const rows = data.map((addon) => [
      ...[addon.name, addon.type, addon.status, addon.config.size ?? ""],
      ...serverOf(addon),
    ]);
    printTable(io, ["ADDON", "TYPE", "STATUS", "SIZE", "VERSION", "STORAGE"], rows);
    return undefined;
  },
});

const connect = command({
  name: "addons connect",
  summary: "Open psql or redis-cli on an addon, or a local port to it",
  args: "ADDON",
  arity: [1, 1],
  takesCommand: true,
  about: [
    "Goes through a tunnel of Berth, so that it works wherever the addon runs. The password works only in this tunnel, and ends with it. The audit log records the tunnel.",
  ],
  examples: [
    ["addons connect db", "open psql"],
    ["addons connect db -- -c 'select 1'", "with arguments for psql"],
    ["addons connect db --port 5433", "open a port for other programs, until Ctrl-C"],
  ],
  options: {
    port: { kind: "text", value: "N", about: "Listen on this port of 127.0.0.1; 0 for a free one" },
  },
  async run({ args: [name], options, rest }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.environment();
    const addon = await (await ctx.berth()).services.get({ ...at, service: name! }, { signal });
    const wanted = numberOf("--port", options.port);
    const opened = await openPort(ctx, { ...at, service: addon.name }, wanted ?? 0);
    try {
      if (wanted !== undefined) return await keepOpen(ctx, addon, opened);
      const [program, args, env] = clientOf(opened, addon);
      const child = spawn(program, [...args, ...rest], { stdio: "inherit", env: { ...process.env, ...env } });
      const [code] = (await once(child, "exit").catch(() => {
        throw refused(`${program} is not installed.`, `berth addons connect ${name} --port 0`);
      })) as [number | null];
      if (io.json) io.outJson({ exitCode: code });
      return code ?? 1;
    } finally {
      opened.close();
    }
  },
});

/** Secrets go by the environment: arguments are seen by other users. */
function clientOf(
  { port, login: { user = "", password, database = "" } }: OpenPort,
  { type }: Service,
): [program: string, args: string[], env: Record<string, string>] {
  if (type === "redis")
    return ["redis-cli", ["-h", LOOPBACK, "-p", String(port)], { REDISCLI_AUTH: password }];
  const env = { PGHOST: LOOPBACK, PGPORT: String(port), PGUSER: user, PGPASSWORD: password };
  return ["psql", [], { ...env, PGDATABASE: database }];
}

async function keepOpen(ctx: Context, { name, type }: Service, { port, login }: OpenPort): Promise<number> {
  const { io, signal } = ctx;
  const { user = "", password, database = "" } = login;
  const url = `${type}://${user}:${password}@${LOOPBACK}:${port}/${database}`;
  if (io.json) io.outJson({ host: LOOPBACK, port, ...login, url });
  else io.out(url);
  io.note(`  A port to ${name} with a password of its own, until Ctrl-C.`);
  ctx.sayWhenCanceled(`The port to ${name} is closed.`);
  await once(signal, "abort").catch(() => {});
  signal.throwIfAborted();
  return 0;
}

const promote = command({
  name: "addons promote",
  summary: "Let an addon take the place of another",
  args: "ADDON OTHER",
  arity: [2, 2],
  about: [
    "The two exchange their names. Variables that are connected to OTHER lead to ADDON from then on, and running services",
    "receive its keys. What was written to OTHER since ADDON was forked from it is not in ADDON: stop what writes first.",
    "The same command again undoes it.",
  ],
  examples: [["addons promote db18 db", "what was db is db18 then, and keeps its data"]],
  async run({ args: [addon = "", other = ""] }, ctx) {
    const { io, signal } = ctx;
    const at = { ...(await ctx.at.environment()), service: addon };
    const promoted = await (await ctx.berth()).services.promote(at, { over: other }, { signal });
    if (io.json) return io.outJson(promoted);
    io.note(`  ${addon} is ${promoted.name} now, and what was ${promoted.name} is ${addon}.`);
    return undefined;
  },
});

export const commands = [list, stats, connect, promote];
