import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { isRefusal, Unreachable } from "../../../typescript/src/errors.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import { command } from "../../command.ts";
import type { Context } from "../../context.ts";
import { refused, usage } from "../../failure.ts";
import { clean } from "../../terminal/clean.ts";
import { revealAll } from "./resolved.ts";

const POLL_MS = 3_000;
/** As long as the platform gives an app to stop. */
const STOP_MS = 10_000;

const run = command({
  name: "run",
  summary: "Run a command with a service's variables",
  arity: [0, 0],
  takesCommand: true,
  about: [
    "The command runs here, with the variables that the service receives in its environment, over those of this shell. The exit code is the command's. Every secret that is revealed is recorded in the audit log.",
    "Addresses that only the environment reaches, such as those of addons on a cluster, are not reached from here by themselves. To run a command in the platform: berth jobs run.",
  ],
  examples: [
    ["run -- npm start", "run it as the linked service would"],
    ["run --watch -- node server.js", "start it again whenever a variable changes"],
    ["run -s web -- printenv GREETING", "see what the service web receives"],
  ],
  options: {
    watch: { kind: "flag", short: "w", about: "Start the command again when the variables change" },
  },
  async run({ rest, options: { watch } }, ctx) {
    const [program, ...args] = rest;
    if (!program) throw usage("No command is given.", "berth run -- npm start");
    const at = await ctx.at.service();
    const watching = new AbortController();
    const watched = watch ? revisions(ctx, at, watching.signal) : undefined;
    try {
      await watched?.next();
      for (;;) {
        const env = { ...process.env, ...Object.fromEntries(await revealAll(ctx, at)) };
        const child = await start(program, args, env);
        const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
        const stopForwarding = forwardSignals(child);
        try {
          const changed = watched && (await Promise.race([ended.then(() => false), change(ctx, watched)]));
          if (!changed) return exitCodeOf(await ended);
          ctx.io.note(`  The variables of ${at.service} changed: starting again.`);
          await stop(child, ended);
        } finally {
          stopForwarding();
        }
      }
    } finally {
      watching.abort();
      // The stream has a timer, which would keep this process.
      await watched?.return(undefined).catch(() => {});
    }
  },
});

/** Starts the command. It has the terminal: Ctrl-C reaches it directly, and berth waits for it. */
async function start(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: "inherit", env });
  try {
    await once(child, "spawn");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw refused(
      code === "ENOENT" ? `There is no program ${program}.` : `${program} cannot be started: ${message}`,
    );
  }
  return child;
}

function forwardSignals(child: ChildProcess): () => void {
  const signals = ["SIGTERM", "SIGHUP"] as const;
  const forward = (signal: NodeJS.Signals) => void child.kill(signal);
  for (const signal of signals) process.on(signal, forward);
  return () => {
    for (const signal of signals) process.off(signal, forward);
  };
}

async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.kill("SIGTERM");
  const late = new AbortController();
  const killing = delay(STOP_MS, undefined, { signal: late.signal }).then(
    () => child.kill("SIGKILL"),
    () => {},
  );
  await ended;
  late.abort();
  await killing;
}

/** As shells say it: 128 and the number of the signal. */
function exitCodeOf([code, signal]: [number | null, NodeJS.Signals | null]): number {
  return code ?? 128 + (signal ? constants.signals[signal] : 0);
}

/** Resolves to whether the variables have changed. What ends the watching leaves the command running. */
async function change({ io }: Context, watched: AsyncGenerator<string>): Promise<boolean> {
  try {
    return !(await watched.next()).done;
  } catch (error) {
    if ((error as Error).name !== "AbortError")
      io.note(`  Changes start nothing again from now on: ${clean((error as Error).message)}`);
    return false;
  }
}

/**
 * Yields what names the variables, first at once and then whenever it changes: with each value, secret or not. It follows
 * them, and asks again and again where that is not possible: an older server, no stream left for the user, no answer.
 */
async function* revisions(ctx: Context, at: ServiceAddress, signal: AbortSignal): AsyncGenerator<string> {
  const { variables } = await ctx.berth();
  let last: string | undefined;
  try {
    for await (const { revision } of variables.followResolved(at, { signal })) {
      if (revision !== last) yield revision;
      last = revision;
    }
  } catch (error) {
    if (!mayPass(error)) throw error;
  }
  for (;;) {
    try {
      const revision = await readRevision(ctx, at, signal);
      if (revision !== last) yield revision;
      last = revision;
    } catch (error) {
      if (!mayPass(error) || last === undefined) throw error;
    }
    await delay(POLL_MS, undefined, { signal });
  }
}

const mayPass = (error: unknown) =>
  error instanceof Unreachable ||
  isRefusal(error, "rate_limited") ||
  (isRefusal(error) && (error.status ?? 0) >= 500);

async function readRevision(ctx: Context, at: ServiceAddress, signal: AbortSignal): Promise<string> {
  let tag = "";
  const onHead = ({ headers }: { headers: Headers }) => {
    tag = headers.get("etag") ?? "";
  };
  await (await ctx.berth()).variables.resolve(at, { signal, onHead });
  // A proxy that compresses makes a weak tag of it.
  return tag.replace(/^(?:W\/)?"(.*)"$/, "$1");
}

export const commands = [run];
