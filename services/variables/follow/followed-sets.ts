import type { ResolvedVariableEvent } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Logger } from "../../kit/log.ts";
import type { ChangeFeed } from "../../kit/postgres/change-feed.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Start } from "../../kit/streams/follow-set.ts";
import type { FollowedSet } from "../../kit/streams/followed-set.ts";
import { orUnavailable } from "../../kit/streams/or-unavailable.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { readConfigEnv } from "../resolve/config-env.ts";
import type { Scope, ScopeKind } from "../scopes/scope.ts";
import type { Deployer } from "../scopes/scopes.ts";
import type { DataKeys } from "../seal/data-keys.ts";
import { REFRESH_FOLLOWED } from "../tasks.ts";
import { FollowedScope } from "./followed-scope.ts";
import { refreshScopes } from "./refresh.ts";
import { startAfter } from "./resume.ts";
import { ServiceSet } from "./service-set.ts";

/** The channel on which triggers notify, and the name of the session that listens. */
export const FOLLOW_CHANNEL = "variables-follow";

/** The pause before the deployer is asked again that did not answer. */
const RETRY_MS = 1_000;

type Deps = {
  pool: Pool;
  deployer: Pick<Deployer, "getServiceEnv">;
  keys: DataKeys;
  changes: Pick<ChangeFeed, "watch">;
  log: Logger;
};

/** A set that a stream follows, and from where, until it calls `close`. */
export type Following = { set: FollowedSet<ResolvedVariableEvent>; start: Start; close: () => void };

export type FollowedSets = ReturnType<typeof createFollowedSets>;

/**
 * The resolved sets of services that streams of this process follow. A scope is read when a trigger says that some process
 * changed it: once, however many streams follow however many services below it.
 */
export function createFollowedSets({ pool, deployer, keys, changes, log }: Deps) {
  const sets = new Map<string, ServiceSet>();
  /** The scopes of all sets by id, and the sets that each is part of. */
  const scopes = new Map<string, FollowedScope>();
  const setsOf = new Map<FollowedScope, Set<ServiceSet>>();
  const stale = new Set<FollowedScope>();
  const refreshing = startTask(REFRESH_FOLLOWED, refresh, { log });
  const unwatch = changes.watch((id) => {
    for (const scope of id === undefined ? scopes.values() : [scopes.get(id)]) if (scope) stale.add(scope);
    if (stale.size > 0) refreshing.wake();
  });

  async function refresh(): Promise<void> {
    const batch = stale.size > 0 ? [...stale] : [...scopes.values()];
    if (batch.length === 0) return;
    stale.clear();
    const configEnvs = batch.map((scope) => scope.configEnvAt);
    try {
      await refreshScopes({ pool, keys }, batch, setsOf);
    } catch (error) {
      for (const scope of batch) if (scopes.has(scope.id)) stale.add(scope);
      throw error;
    }
    for (const [index, scope] of batch.entries())
      if (scope.configEnvAt !== configEnvs[index])
        for (const one of setsOf.get(scope) ?? []) if (one.chain.service === scope) void followConfig(one);
  }

  /** Reads the `config.env` of a service again until it is known: while the deployer does not answer, it stays as it was. */
  async function followConfig(one: ServiceSet): Promise<void> {
    if (!one.isComplete || one.readsConfig) return;
    one.readsConfig = true;
    while (one.followers > 0) {
      const read = await readConfig(one).then(
        () => true,
        () => false,
      );
      if (read) break;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
    one.readsConfig = false;
  }

  async function readConfig(one: ServiceSet): Promise<void> {
    const { service } = one.chain;
    let at: string | null | undefined;
    while (at !== service.configEnvAt) {
      at = service.configEnvAt;
      // What was announced and has not happened yet says nothing here: its event will.
      const mayHaveConfigEnv = at !== null || (!one.isComplete && one.scope.mayHaveConfigEnv === true);
      const config = await readConfigEnv({ pool, deployer }, { ...one.scope, mayHaveConfigEnv });
      if (at === service.configEnvAt) one.applyConfig(config);
    }
  }

  function followedScope(accountId: string, kind: ScopeKind, id: string): FollowedScope {
    const found = scopes.get(id) ?? new FollowedScope(accountId, kind, id);
    scopes.set(id, found);
    if (!found.isRead) stale.add(found);
    return found;
  }

  function open(scope: Scope): ServiceSet {
    const known = sets.get(scope.id);
    if (known) return known;
    const { accountId, projectId, environmentId, id } = scope;
    const chain = {
      service: followedScope(accountId, "service", id),
      environment: followedScope(accountId, "environment", environmentId!),
      project: followedScope(accountId, "project", projectId),
    };
    const made = new ServiceSet(scope, chain, readConfig);
    sets.set(id, made);
    for (const each of made.scopes) setsOf.set(each, (setsOf.get(each) ?? new Set()).add(made));
    refreshing.wake();
    return made;
  }

  function close(one: ServiceSet): void {
    one.followers--;
    if (one.followers > 0) return;
    sets.delete(one.scope.id);
    for (const scope of one.scopes) {
      const left = setsOf.get(scope);
      left?.delete(one);
      if (left && left.size > 0) continue;
      setsOf.delete(scope);
      scopes.delete(scope.id);
      stale.delete(scope);
    }
  }

  return {
    /**
     * Follows the set of a service from an event id. Throws 404 when it was deleted, and 503 while it cannot be read or its
     * values cannot be decrypted.
     */
    async follow(scope: Scope, eventId: string | undefined, signal: AbortSignal): Promise<Following> {
      const one = open(scope);
      one.followers++;
      let closed = false;
      const closeOnce = () => {
        if (!closed) close(one);
        closed = true;
      };
      try {
        await orUnavailable(one.ready, signal);
        return { set: one.set, start: await startAfter(pool, one, eventId), close: closeOnce };
      } catch (error) {
        closeOnce();
        throw error;
      }
    },

    async stop(): Promise<void> {
      unwatch();
      await refreshing.stop();
    },
  };
}
