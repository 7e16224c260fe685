import { fstatSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join, relative } from "node:path";
import { isLoopback } from "../../../services/kit/network/own-origin.ts";
import type { MovedPort } from "../data/data-folder.ts";
import type { LocalInfo } from "../data/local-info.ts";
import { projectDir } from "./options.ts";

type About = {
  data: string;
  /** The address at which the API and apps listen. */
  listen: string;
  router: number;
  moved: MovedPort[];
  seconds: number;
  /** Why apps have no walls; absent if they have. */
  noWalls: string | undefined;
  /** Why apps are not held to their sizes, if they are not. */
  noLimits: string | undefined;
  /** Nothing has been deployed here yet. */
  fresh: boolean;
  /** Whether the console is served. */
  console: boolean;
  /** It goes to a log that others read and that is kept: secrets stay out of it. */
  journal: boolean;
};

const CAPTURED = "shows captured mail; nothing is delivered";

/** Returns whether this process prints to the journal of systemd (systemd.exec(5)): children inherit the variable alone. */
export function printsToJournal(env = process.env): boolean {
  const { dev, ino } = fstatSync(1);
  return env.JOURNAL_STREAM === `${dev}:${ino}`;
}

/** Returns what is printed when everything is ready: addresses, and commands that deploy an example. */
export async function summary(info: LocalInfo, about: About): Promise<string> {
  const { data, listen, router, moved } = about;
  const folder = shortPath(data);
  const { publicUrl, appsDomain } = info;
  const origin = publicUrl ?? info.origin;
  const app = "<service>-<environment>-<project>";
  const table = [
    ["API", `${origin}/v1`],
    ...(about.console ? [["Console", `${origin}/ (projects, deployments, logs, variables)`]] : []),
    ["Reference", `${origin}/docs`],
    ["Apps", appsDomain ? `https://${app}.${appsDomain}` : `http://${app}.localhost:${router}`],
    ...(publicUrl || appsDomain
      ? [["Proxy", `sends the API's requests to ${info.origin}, and those for apps to port ${router}`]]
      : []),
    ["Owner", `${info.ownerEmail} (password: ownerPassword in ${folder}/secrets.json)`],
    ["Token", about.journal ? `ownerToken in ${folder}/local.json` : info.ownerToken],
    ...(publicUrl ? [["CLI", `npx berth login ${publicUrl} (from any machine)`]] : []),
    ["CLI", `npx berth login --local ${quoted(`${folder}/local.json`)} (signs in, from this folder)`],
    ...(info.mailUrl
      ? [["Mail", `${about.journal ? `mailUrl in ${folder}/local.json` : info.mailUrl} (${CAPTURED})`]]
      : []),
    ...(info.checkoutUrl
      ? [["Payments", `${info.checkoutUrl} (a simulator of Stripe: no money moves)`]]
      : []),
    ["Data, logs", `${folder}, ${folder}/logs`],
  ].map(([name, value]) => `  ${name?.padEnd(11)} ${value}`);
  return [
    "",
    `Berth is ready (${about.seconds.toFixed(1)} s).`,
    "",
    ...table,
    "",
    ...(isLoopback(listen) ? [] : [`The API and apps listen at ${listen}, without TLS.`]),
    ...describeWalls(about.noWalls),
    about.noLimits === undefined
      ? "Apps are held to the memory and CPU of their size."
      : `Sizes are not enforced (${about.noLimits}): docs/one-machine-proxy.md#sizes.`,
    "",
    ...moved.map(describeMove),
    ...(moved.length > 0 ? [""] : []),
    ...(about.fresh ? await firstDeploy(data) : ["To deploy an app: “First deploy” in README.md."]),
    "",
    "Ctrl-C stops everything.",
    "",
  ].join("\n");
}

function describeWalls(missing: string | undefined): string[] {
  const { username } = userInfo();
  if (missing === undefined)
    return [
      `Apps run as ${username}, behind walls: they see neither Berth's data nor each other's, but share network and kernel.`,
      "Isolation begins on a cluster: docs/operations.md#on-a-cluster.",
    ];
  return [
    `Apps run as ${username} and without walls (${missing}): whoever can deploy can read all data here, Berth's too.`,
    "docs/one-machine-proxy.md#walls says how to get them; isolation begins on a cluster.",
  ];
}

/** What has moved, as users know it. */
const PARTS: Record<string, string> = {
  gateway: "The API",
  router: "Apps",
  postgres: "PostgreSQL",
  nats: "NATS",
  smtp: "The SMTP server",
  mail: "The mail page",
  stripe: "Payments",
};

function describeMove({ name, from, to }: MovedPort): string {
  const part = PARTS[name] ?? `The service ${name.replace(/Grpc$/, " (gRPC)")}`;
  const verb = name === "router" || name === "stripe" ? "are" : "is";
  return `Port ${from} is used by another process. ${part} ${verb} at ${to} instead.`;
}

/** Returns the commands of the README's first deploy: what is printed and what is read there are one text. */
async function firstDeploy(data: string): Promise<string[]> {
  const readme = await readFile(join(projectDir, "README.md"), "utf8");
  const section = readme.split("\n## ").find((text) => text.startsWith("First deploy\n")) ?? "";
  const file = quoted(`${shortPath(data)}/local.json`);
  const blocks = section.split("\n```sh\n").slice(1, 2);
  const commands = blocks.map((block) =>
    `${block.split("\n```\n")[0]}\n`.replaceAll(".berth/local.json", file).replace(/^(?=.)/gm, "  "),
  );
  return [
    "Deploy the example app from a second terminal, in this folder:",
    "",
    commands.join("\n").trimEnd(),
  ];
}

/** Returns a path as a shell reads it. */
function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function shortPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" || short.startsWith("..") ? path : short;
}
