import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { StartFailure } from "./failure.ts";

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

export const help = `npm start -- [options]     the whole platform on this machine

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
  // npm changes to the project's folder; a relative path is meant from where the command was typed.
  const typedIn = (env.npm_lifecycle_event === "start" && env.INIT_CWD) || process.cwd();
  return {
    data: values.data === undefined ? join(projectDir, ".berth") : resolve(typedIn, values.data),
    port,
    reset: values.reset,
    verbose: values.verbose,
    help: values.help,
  };
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
