import { backupHelpers } from "./backups.ts";
import { Caller, type CallOptions, type ClientOptions } from "./caller.ts";
import { deploymentHelpers } from "./deployments.ts";
import { Operations } from "./generated/api.ts";
import { environmentHelpers, variableHelpers } from "./sets.ts";

/** A client of Berth's API. Nothing is sent until a method is called. */
export class Berth extends Operations {
  declare readonly backups: Operations["backups"] & ReturnType<typeof backupHelpers>;
  declare readonly deployments: Operations["deployments"] & ReturnType<typeof deploymentHelpers>;
  declare readonly environments: Operations["environments"] & ReturnType<typeof environmentHelpers>;
  declare readonly variables: Operations["variables"] & ReturnType<typeof variableHelpers>;

  readonly #requests: Caller;

  constructor(options: ClientOptions) {
    const caller = new Caller(options);
    super(caller);
    this.#requests = caller;
    Object.assign(this.backups, backupHelpers(this.backups));
    Object.assign(this.deployments, deploymentHelpers(this.deployments));
    Object.assign(this.environments, environmentHelpers(this.environments));
    Object.assign(this.variables, variableHelpers(this.variables));
  }
  /**
   * Sends a request that has no method here, such as one that is newer than this client. `path` is relative to `/v1` and
   * has its query: `request("GET", "/me/tokens?limit=5")`.
   */
  request<T>(method: string, path: string, body?: unknown, options?: CallOptions): Promise<T> {
    return this.#requests.call<T>(method, path, { body, options });
  }
}
