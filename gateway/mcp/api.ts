import type { DescMethod } from "@bufbuild/protobuf";
import { CatalogService } from "../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { AccountService } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { createSemaphore } from "../../services/kit/concurrency/semaphore.ts";
import type { CachedCaller } from "../auth/caller-cache.ts";
import type { CallApi, ToolCall } from "../requests/tool-call.ts";
import { isIdOf } from "../routing/path-ids.ts";
import type { Narrowing } from "./narrowing.ts";

/** Why a tool did not do what it was called for, in words for its model. */
export class ToolRefusal extends Error {
  readonly code: string;
  readonly status: number;
  constructor(code: string, message: string, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

type ErrorBody = {
  error: {
    code: string;
    message: string;
    details?: { path: string; reason: string; message: string }[];
    requiredRole?: string;
  };
};

export type Api = ReturnType<typeof createApi>;

export type ProjectAddress = { accountId: string; projectId: string };
export type EnvironmentAddress = ProjectAddress & { environmentId: string };
export type ServiceAddress = EnvironmentAddress & { service: string };

type Named = { id: string; name: string };
type Page<T> = { data: T[]; page: { nextCursor: string; hasMore: boolean } };

/** How many calls of the API one call of a tool makes at once: a project can have hundreds of environments. */
export const MAX_AT_ONCE = 8;

/** How many pages of a list are read to find a name, or to count, and their size: a thousand entries. */
const MAX_PAGES = 10;
const PAGE = 100;

/** Returns what tools use of the API in one call: its RPCs, and addresses by names or ids. */
export function createApi(options: {
  callApi: CallApi;
  by: Omit<ToolCall, "rpc" | "members" | "idempotencyKey">;
  caller: CachedCaller;
  narrowing: Narrowing;
}) {
  const { callApi, by, caller, narrowing } = options;
  const inTurn = createSemaphore(MAX_AT_ONCE);

  /** Calls an RPC and resolves to the body of its response. Throws a `ToolRefusal`. */
  async function call<T>(rpc: DescMethod, members: object, idempotencyKey?: string): Promise<T> {
    const response = await inTurn(() => callApi({ ...by, rpc, members: { ...members }, idempotencyKey }));
    const body = response.body && JSON.parse(response.body.toString());
    if (response.status < 300) return body as T;
    const { code, message, details = [], requiredRole } = (body as ErrorBody).error;
    const more = details.slice(1).map((detail) => ` ${detail.message}`);
    const reasons = details.map(({ path, reason }) => `${path || "body"}: ${reason}`);
    const about = [
      ...(reasons.length > 0 ? [reasons.join(", ")] : []),
      ...(requiredRole ? [`role ${requiredRole}`] : []),
      ...(response.retryAfter !== undefined ? [`try again in ${response.retryAfter} s`] : []),
    ];
    const sentence = message + more.join("") + (about.length > 0 ? ` (${about.join("; ")})` : "");
    throw new ToolRefusal(code, sentence, response.status);
  }

  /** Reads a list to its end, or to a thousand entries. */
  async function all<T>(rpc: DescMethod, members: object): Promise<T[]> {
    const found: T[] = [];
    let cursor: string | undefined;
    for (let read = 0; read < MAX_PAGES; read++) {
      const { data, page } = await call<Page<T>>(rpc, { ...members, limit: PAGE, cursor });
      found.push(...data);
      if (!page.hasMore) break;
      cursor = page.nextCursor;
    }
    return found;
  }

  function pick<T extends Named>(wanted: string, all: T[], noun: string): T {
    const found = all.find(({ id, name }) => id === wanted || name === wanted);
    if (found) return found;
    const names = all.slice(0, 20).map(({ name }) => name);
    const others = names.length > 0 ? `There are: ${names.join(", ")}.` : "There are none.";
    const named = `${noun} ${JSON.stringify(wanted.slice(0, 60))}`;
    const sentence =
      all.length < MAX_PAGES * PAGE
        ? `There is no ${named}. ${others}`
        : `There is no ${named} among the newest ${all.length}. Give the id of an older one instead of its name.`;
    throw new ToolRefusal("not_found", sentence, 404);
  }

  let accountId: Promise<string> | undefined;

  async function findAccount(): Promise<string> {
    const wanted = narrowing.account ?? (caller.roles.size === 1 ? [...caller.roles.keys()][0] : undefined);
    if (wanted !== undefined && isIdOf("accountId", wanted)) return wanted;
    const accounts = await all<{ id: string; handle: string }>(AccountService.method.listAccounts, {});
    if (wanted !== undefined)
      return pick(
        wanted,
        accounts.map(({ id, handle }) => ({ id, name: handle })),
        "account",
      ).id;
    const handles = accounts.map(({ handle }) => handle).slice(0, 20);
    throw new ToolRefusal(
      "account_needed",
      `The token reaches several accounts. Connect to /mcp?account=HANDLE with one of: ${handles.join(", ")}.`,
    );
  }

  const account = () => {
    accountId ??= findAccount();
    return accountId;
  };

  async function projectOf(wanted: string): Promise<ProjectAddress> {
    const at = { accountId: await account() };
    const projectId = isIdOf("projectId", wanted)
      ? wanted
      : pick(wanted, await all<Named>(CatalogService.method.listProjects, at), "project").id;
    if (narrowing.project === undefined || [wanted, projectId].includes(narrowing.project))
      return { ...at, projectId };
    const allowed = isIdOf("projectId", narrowing.project) ? narrowing.project : (await own()).projectId;
    if (allowed === projectId) return { ...at, projectId };
    throw new ToolRefusal("forbidden", `This connection is for the project ${narrowing.project} only.`, 403);
  }

  /** The project to which the connection is narrowed. */
  async function own(): Promise<ProjectAddress> {
    return projectOf(narrowing.project!);
  }

  function parts(path: string, wanted: number, form: string): string[] {
    const found = path.split("/");
    if (found.length === wanted && found.every((part) => part !== "")) return found;
    throw new ToolRefusal(
      "invalid_path",
      `Write ${form}, by names or ids, such as ${form.replaceAll(/[a-z]+/g, (word) => EXAMPLES[word]!)}.`,
    );
  }

  const at = {
    account,
    project: async (path: string) => projectOf(parts(path, 1, "project")[0]!),
    async environment(path: string): Promise<EnvironmentAddress> {
      const [project, name] = parts(path, 2, "project/environment");
      const address = await projectOf(project!);
      if (isIdOf("environmentId", name)) return { ...address, environmentId: name! };
      const environments = await all<Named>(CatalogService.method.listEnvironments, address);
      return { ...address, environmentId: pick(name!, environments, "environment").id };
    },
    async service(path: string): Promise<ServiceAddress> {
      const [project, environment, service] = parts(path, 3, "project/environment/service");
      return { ...(await at.environment(`${project}/${environment}`)), service: service! };
    },
    /** A project, an environment or a service, by how many parts the path has. */
    async any(path: string): Promise<ProjectAddress & { environmentId?: string; service?: string }> {
      const depth = path.split("/").length;
      if (depth === 3) return at.service(path);
      if (depth === 2) return at.environment(path);
      return at.project(path);
    },
  };

  return { call, all, at, narrowed: narrowing.project };
}

const EXAMPLES: Record<string, string> = { project: "shop", environment: "production", service: "web" };
