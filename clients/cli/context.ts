import type { Berth } from "../typescript/src/berth.ts";
import type { Account, Environment, Project, Service } from "../typescript/src/generated/types.ts";
import type {
  AccountAddress,
  EnvironmentAddress,
  ProjectAddress,
  ServiceAddress,
} from "../typescript/src/path.ts";
import type { CommonValues, Description } from "./description.ts";
import { refused, usage } from "./failure.ts";
import { findLink, type Link } from "./project/project-file.ts";
import { serverNow } from "./session/http.ts";
import { openSession, type Session } from "./session/session.ts";
import { readStdin } from "./terminal/prompt.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** What commands are given: the terminal, the session, and where the user means. */
export type Context = ReturnType<typeof createContext>;

type Given = {
  io: Terminal;
  common: CommonValues;
  /** Aborts when the user cancels. */
  signal: AbortSignal;
  /** Loads what all commands say of themselves. */
  loadCommands: () => Promise<Description[]>;
};

export function createContext({ io, common, signal, loadCommands }: Given) {
  const whenCanceled: string[] = [];
  let folder = process.cwd();
  let found: Promise<{ file: string; link: Link } | undefined> | undefined;
  let opened: Promise<Session> | undefined;

  const nearest = () => {
    found ??= findLink(folder);
    return found;
  };
  const link = async () => (await nearest())?.link;
  const session = () => {
    opened ??= open();
    return opened;
  };

  async function open(): Promise<Session> {
    const token = common.token === "-" ? (await readStdin()).trim() : common.token;
    const linked = (await link())?.origin;
    return openSession({ url: common.url, token, linked }, io.note);
  }

  const berth = async (): Promise<Berth> => (await session()).berth;
  /** The link, if it is of the installation that is used. */
  const here = async () => {
    const known = await link();
    return known && known.origin === (await session()).origin ? known : undefined;
  };

  async function account(): Promise<AccountAddress & { name: string }> {
    const linked = (await here())?.account;
    if (!common.account && linked) return { accountId: linked.id, name: linked.name };
    const all = await (await berth()).accounts.list({ limit: 100 }, { signal }).all();
    const toNamed = all.map(({ id, handle }) => ({ id, name: handle }) as Account & { name: string });
    const { id, name } = pick(toNamed, common.account, "account", "--account");
    return { accountId: id, name };
  }

  /** @param wanted the name or id of a project that was given as an argument; the same for an environment. */
  async function project(wanted = common.project): Promise<ProjectAddress & { name: string }> {
    const linked = await here();
    if (!wanted && linked && !common.account)
      return { accountId: linked.account.id, projectId: linked.project.id, name: linked.project.name };
    const { accountId } = await account();
    if (wanted?.startsWith("prj_")) return { accountId, projectId: wanted, name: wanted };
    const all = await (await berth()).projects.list({ accountId }, { limit: 100 }, { signal }).all();
    const { id, name } = pick<Project>(all, wanted, "project", "-p", "berth init NAME");
    return { accountId, projectId: id, name };
  }

  async function environment(wanted = common.env): Promise<EnvironmentAddress & { name: string }> {
    const { name: _, ...at } = await project();
    const linked = await here();
    if (!wanted && linked?.project.id === at.projectId)
      return { ...at, environmentId: linked.environment.id, name: linked.environment.name };
    if (wanted?.startsWith("env_")) return { ...at, environmentId: wanted, name: wanted };
    const all = await (await berth()).environments.list(at, { limit: 100 }, { signal }).all();
    const { id, name } = pick<Environment>(all, wanted, "environment", "-e", "berth envs create NAME");
    return { ...at, environmentId: id, name };
  }

  /** @param wanted the name of a service that was given as an argument. */
  async function service(wanted?: string): Promise<ServiceAddress> {
    const { name: _, ...at } = await environment();
    const linked = await here();
    const given = wanted ?? common.service;
    if (given) return { ...at, service: given };
    if (linked?.service && linked.environment.id === at.environmentId)
      return { ...at, service: linked.service };
    const all = await (await berth()).services.list(at, { limit: 100 }, { signal }).all();
    // One that is being deleted answers nothing any more.
    const own = all.filter(
      ({ type, status }) => type !== "postgres" && type !== "redis" && status !== "deleting",
    );
    return {
      ...at,
      service: pick<Service>(own, undefined, "service", "-s", "berth services create NAME").name,
    };
  }

  return {
    io,
    signal,
    common,
    loadCommands,
    link,
    session,
    berth,
    at: { account, project, environment, service },
    /** Lines that say what continues when the user cancels. */
    whenCanceled,
    /** Replaces them. */
    sayWhenCanceled(...lines: string[]) {
      whenCanceled.splice(0, whenCanceled.length, ...lines);
    },
    /** Looks for the project file from this folder upwards. */
    lookFrom(from: string) {
      folder = from;
    },
    /** Ignores the project file, for a command that writes a new one. */
    forgetLink() {
      found = Promise.resolve(undefined);
    },
    linkFile: async () => (await nearest())?.file,
    /** The time at the server, in ms. */
    now: async () => serverNow((await session()).observed),
  };
}

/** Returns the one that is wanted, by name or id, or the only one. */
function pick<T extends { id: string; name: string }>(
  all: T[],
  wanted: string | undefined,
  noun: string,
  flag: string,
  create?: string,
): T {
  const names = all.map(({ name }) => name).join(", ");
  if (wanted) {
    const found = all.find(({ id, name }) => name === wanted || id === wanted);
    if (found) return found;
    const others = names ? `There are: ${names}.` : "There are none.";
    throw refused(`There is no ${noun} ${JSON.stringify(wanted)}. ${others}`, create, "not_found");
  }
  if (all.length === 1) return all[0]!;
  if (all.length === 0) throw refused(`There is no ${noun}.`, create ?? "berth whoami", "not_found");
  throw usage(`There are several ${noun}s: ${names}.`, `the same command with ${flag} NAME, or berth link`);
}
