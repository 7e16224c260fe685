import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { StartFailure } from "../failure.ts";

export type Options = {
  /** Absolute path of the data folder. */
  data: string;
  /** The requested port; undefined is 4000, or a free one where that is taken. */
  port: number | undefined;
  reset: boolean;
  verbose: boolean;
  help: boolean;
};

/** The root of the project. */
export const projectDir = join(import.meta.dirname, "../../..");

export const help = `npm start -- [options]     runs the whole platform on this machine

  --data DIR    data folder (default: .berth in the project)
  --port N      port of the API (default: 4000, or a free one); apps are on the next one
  --reset       delete everything in the data folder first
  --verbose     print the logs of all processes
  --help        print this text

Ctrl-C stops everything. Exit codes: deploy/local/README.md.`;

/** Reads the command line. @throws StartFailure `usage`. */
export function readOptions(args: string[], env: NodeJS.ProcessEnv): Options {
  const values = parse(args);
  const port = values.port === undefined ? undefined : Number(values.port);
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_535)) {
    throw new StartFailure("usage", `--port must be a number from 1 to 65534, not "${values.port}".`);
  }
  return {
    data: dataFolder(values.data, env),
    port,
    reset: values.reset,
    verbose: values.verbose,
    help: values.help,
  };
}

/** Returns the absolute path of the data folder that is named, or of the usual one. */
export function dataFolder(named: string | undefined, env = process.env): string {
  return named === undefined ? join(projectDir, ".berth") : typedPath(named, env);
}

const COMMANDS = ["start", "backup", "restore"];

/** Returns a path as it was meant where the command was typed: npm changes to the project's folder. */
export function typedPath(path: string, env = process.env): string {
  const throughNpm = COMMANDS.includes(env.npm_lifecycle_event ?? "");
  return resolve((throughNpm && env.INIT_CWD) || process.cwd(), path);
}

function parse(args: string[]) {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const options = { data: text, port: text, reset: flag, verbose: flag, help: flag };
  try {
    return parseArgs({ args, options }).values;
  } catch (cause) {
    throw new StartFailure("usage", `${(cause as Error).message.split(". ")[0]}.\n\n${help}`, { cause });
  }
}
