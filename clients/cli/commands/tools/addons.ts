import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect as connectTo, createServer, type Socket } from "node:net";
import type { Service, Variable } from "../../../typescript/src/generated/types.ts";
import type { EnvironmentAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused } from "../../failure.ts";
import { numberOf } from "../../option-values.ts";
import { printTable } from "../../terminal/table.ts";
import { serverOf } from "./addon-options.ts";

const REACH_MS = 5_000;

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
    "Takes the address from a variable that refers to the addon's URL, and reveals it, which is recorded in the audit log. It works where the addon is reached from this machine, as on a single machine; on a cluster, addons listen only inside it.",
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
    const url = await urlOf(ctx, at, addon);
    await reach(url, addon);
    const port = numberOf("--port", options.port);
    if (port !== undefined) return forward(ctx, url, port, addon);
    const [program, args, env] = clientOf(url, addon);
    const child = spawn(program, [...args, ...rest], { stdio: "inherit", env: { ...process.env, ...env } });
    const [code] = (await once(child, "exit").catch(() => {
      throw refused(`${program} is not installed.`, `berth addons connect ${name} --port 0`);
    })) as [number | null];
    if (io.json) io.outJson({ exitCode: code });
    return code ?? 1;
  },
});

/** Returns the URL that a variable of the environment gives to services. */
async function urlOf(ctx: Context, at: EnvironmentAddress, { name, type }: Service): Promise<URL> {
  if (type !== "postgres" && type !== "redis")
    throw refused(`${name} is a ${type}, not an addon.`, "berth addons");
  const berth = await ctx.berth();
  const { signal } = ctx;
  const isUrl = ({ connection }: Variable) => connection?.service === name && connection.key === "URL";
  const own = await ctx.at.services(at);
  for (const address of [at, ...own.map((each) => ({ ...at, service: each.name }))]) {
    for await (const variable of berth.variables.list(address, { limit: 100 }, { signal })) {
      if (!isUrl(variable)) continue;
      return new URL((await berth.variables.reveal(address, variable.name, { signal })).value);
    }
  }
  throw refused(
    `No variable of the environment refers to the URL of ${name}.`,
    `berth vars set DATABASE_URL --connection ${name}.URL --scope environment`,
  );
}

/** Throws a true sentence where the addon cannot be reached from here. */
async function reach({ hostname, port }: URL, { name }: Service): Promise<void> {
  const socket = connectTo({ host: hostname, port: Number(port) });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(REACH_MS) });
  } catch {
    throw refused(
      `${name} listens at ${hostname}:${port}, which this machine cannot reach: on a cluster, only services of the environment can.`,
      "kubectl port-forward, or berth run from a machine in the cluster",
    );
  } finally {
    socket.destroy();
  }
}

/** Secrets go by the environment: arguments are seen by other users. */
function clientOf(
  url: URL,
  { type }: Service,
): [program: string, args: string[], env: Record<string, string>] {
  const { hostname, port, username, password, pathname } = url;
  if (type === "redis")
    return ["redis-cli", ["-h", hostname, "-p", port], { REDISCLI_AUTH: decodeURIComponent(password) }];
  const env = {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: decodeURIComponent(pathname.slice(1)),
  };
  return ["psql", [], env];
}

async function forward(ctx: Context, url: URL, wanted: number, { name }: Service): Promise<number> {
  const { io, signal } = ctx;
  const sockets = new Set<Socket>();
  const server = createServer((local) => {
    const remote = connectTo({ host: url.hostname, port: Number(url.port) });
    for (const [one, other] of [
      [local, remote],
      [remote, local],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(wanted, "127.0.0.1");
  await once(server, "listening").catch((error: Error) => {
    throw refused(
      `Port ${wanted} cannot be used: ${error.message}.`,
      `berth addons connect ${name} --port 0`,
    );
  });
  const { port } = server.address() as { port: number };
  if (io.json) io.outJson({ host: "127.0.0.1", port });
  else io.out(`127.0.0.1:${port}`);
  io.note(`  A port to ${name}, until Ctrl-C. User and password: berth vars reveal`);
  ctx.sayWhenCanceled(`The port to ${name} is closed.`);
  await once(signal, "abort").catch(() => {});
  server.close();
  for (const socket of sockets) socket.destroy();
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

export const commands = [list, connect, promote];
