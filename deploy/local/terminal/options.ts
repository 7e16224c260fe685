import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { isAppsDomain } from "../../../services/deployer/runtime/local/routing/apps-domain.ts";
import { isLoopback } from "../../../services/kit/network/own-origin.ts";
import { LOOPBACK } from "../data/data-folder.ts";
import { StartFailure } from "../failure.ts";

export type Options = {
  /** Absolute path of the data folder. */
  data: string;
  /** The requested port; undefined is 4000, or a free one where that is taken. */
  port: number | undefined;
  /** Where a proxy in front takes requests for the API and for apps; null forgets, undefined keeps what was chosen. */
  publicUrl: string | null | undefined;
  appsDomain: string | null | undefined;
  /** The address at which the API and apps listen. */
  listen: string;
  reset: boolean;
  verbose: boolean;
  printUnit: boolean;
  help: boolean;
};

/** The root of the project. */
export const projectDir = join(import.meta.dirname, "../../..");

export const help = `npm start -- [options]     runs the whole platform on this machine

  --data DIR    data folder (default: .berth in the project)
  --port N      port of the API (default: 4000, or a free one); apps are on the next one
  --reset       delete everything in the data folder first
  --verbose     print the logs of all processes
  --print-unit  print a systemd unit that starts Berth with these options
  --help        print this text

Behind a proxy with TLS (docs/one-machine-proxy.md#public-addresses); later starts keep the first two, "none" forgets:
  --public-url URL      where people reach the API and its pages: https://berth.example.com
  --apps-domain DOMAIN  apps get https addresses below it: apps.example.com
  --listen ADDRESS      listen at this address of the machine, not at 127.0.0.1 only

Berth on one machine does not isolate apps as a cluster does: docs/one-machine-proxy.md#walls.
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
    publicUrl: readOr(values["public-url"], readPublicUrl),
    appsDomain: readOr(values["apps-domain"], readAppsDomain),
    listen: values.listen === undefined ? LOOPBACK : readListen(values.listen),
    reset: values.reset,
    verbose: values.verbose,
    printUnit: values["print-unit"],
    help: values.help,
  };
}

function readOr(text: string | undefined, read: (text: string) => string): string | null | undefined {
  if (text === undefined) return undefined;
  return text === "none" ? null : read(text);
}

function readPublicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url && url.href === `${url.origin}/`;
  if (isOrigin && /^https?:$/.test(url.protocol)) return url.origin;
  const sentence = "--public-url must be a URL without a path, such as https://berth.example.com, or none";
  throw new StartFailure("usage", `${sentence}, not "${text}".`);
}

function readAppsDomain(text: string): string {
  const name = text.toLowerCase();
  if (isAppsDomain(name)) return name;
  const sentence = "--apps-domain must be a host name such as apps.example.com, or none";
  throw new StartFailure("usage", `${sentence}, not "${text}".`);
}

function readListen(text: string): string {
  const all = Object.values(networkInterfaces()).flatMap((some) => some ?? []);
  // Link-local addresses of IPv6 need a zone besides.
  const own = all.filter(({ scopeid }) => !scopeid).map(({ address }) => address);
  const known = [...own, "0.0.0.0", "::"];
  if (known.includes(text) || (isIP(text) && isLoopback(text))) return text;
  throw new StartFailure(
    "usage",
    `--listen must be an address of this machine (${known.join(", ")}), not "${text}".`,
  );
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
  const options = {
    data: text,
    port: text,
    "public-url": text,
    "apps-domain": text,
    listen: text,
    reset: flag,
    verbose: flag,
    "print-unit": flag,
    help: flag,
  };
  try {
    return parseArgs({ args, options }).values;
  } catch (cause) {
    throw new StartFailure("usage", `${(cause as Error).message.split(". ")[0]}.\n\n${help}`, { cause });
  }
}
