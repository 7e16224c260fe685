import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  DanglingVariableSchema,
  type ResolvedNameSchema,
  type ResolvedVariableEvent,
  ResolvedVariableEventSchema,
  ResolvedVariableSchema,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { keepText } from "../../kit/rpc/json/unary-json.ts";
import { FollowedSet } from "../../kit/streams/followed-set.ts";
import type { SealedValue } from "../resolve/chain.ts";
import type { ConfigEnv } from "../resolve/config-env.ts";
import { configEntry } from "../resolve/config-env.ts";
import { type Resolved, resolve } from "../resolve/resolve.ts";
import { type Scope, tagOf } from "../scopes/scope.ts";
import type { Vault } from "../seal/data-keys.ts";
import type { FollowedScope, ScopeChange, StoredVariable } from "./followed-scope.ts";

/** The three scopes of a service, from the nearest. */
export type Chain = { service: FollowedScope; environment: FollowedScope; project: FollowedScope };

/** The resolved set of one service, as it is followed. */
export class ServiceSet {
  readonly scope: Scope;
  readonly chain: Chain;
  readonly set: FollowedSet<ResolvedVariableEvent>;
  /** Resolves once all of it was read. */
  readonly ready: Promise<void>;
  isComplete = false;
  /** Whether its `config.env` is being read again. */
  readsConfig = false;
  followers = 0;
  config: ConfigEnv = { env: {}, tag: "" };
  vault: Vault | undefined;
  /** Of the connections, by name: how each resolved when it was looked at last. */
  #connections = new Map<string, string>();
  readonly #loaded = Promise.withResolvers<void>();

  /** `complete` reads what is not in the database, once the scopes are known. */
  constructor(scope: Scope, chain: Chain, complete: (set: ServiceSet) => Promise<void>) {
    this.scope = scope;
    this.chain = chain;
    this.ready = this.#loaded.promise.then(async () => {
      await complete(this);
      this.isComplete = true;
    });
    // Whoever follows hears of it; perhaps nobody does any longer.
    this.ready.catch(() => {});
    this.set = new FollowedSet({
      revision: () => this.revision,
      keys: () => this.#names(),
      render: (name) => this.#render(name),
    });
  }

  get scopes(): FollowedScope[] {
    const { service, environment, project } = this.chain;
    return [service, environment, project];
  }

  /** The tag of the set, as a read of it has. */
  get revision(): string {
    const { service, environment, project } = this.chain;
    return tagOf(this.scope.id, project.revision, environment.revision, service.revision) + this.config.tag;
  }

  /** Whether any of its members has a value, which needs the data key. */
  get hasValues(): boolean {
    const literals = this.scopes.some(({ rows }) => rows.values().some(({ value }) => value !== null));
    return literals || this.chain.environment.services.values().some(({ keys }) => keys.size > 0);
  }

  /** Ends it, and all streams that follow it. */
  end(error: Error): void {
    this.#loaded.reject(error);
    this.set.end(error);
  }

  /** Tells followers what changed in scopes of the chain, all of which were read. */
  commitChanges(changes: ReadonlyMap<FollowedScope, ScopeChange>): void {
    this.#loaded.resolve();
    const own = this.scopes.flatMap((scope) => changes.get(scope) ?? []);
    const connections = this.#changedConnections();
    if (own.some(({ names }) => names === undefined)) this.set.reset();
    else {
      const names = [...connections, ...own.flatMap((change) => [...change.names!])];
      const affected = this.affectedBy(names, new Set(own.flatMap(({ addons }) => [...addons])));
      if (affected.size > 0) this.set.commit(affected);
    }
  }

  /** Takes over another `config.env`, and tells followers what of it is other. */
  applyConfig(config: ConfigEnv): void {
    const before = this.config;
    this.config = config;
    const all = new Set([...Object.keys(before.env), ...Object.keys(config.env)]);
    const changed = [...all].filter((name) => before.env[name] !== config.env[name] && !this.#nearest(name));
    if (changed.length > 0) this.set.commit(new Set(changed));
  }

  /** Returns the names whose entry may change with variables of these names and with the keys of these addons. */
  affectedBy(names: Iterable<string>, addons: ReadonlySet<string>): Set<string> {
    const affected = new Set(names);
    const { serviceIds } = this.chain.environment;
    if (addons.size > 0)
      for (const name of this.#kinds("connections")) {
        const id = serviceIds.get(this.#nearest(name)?.connectionService ?? "");
        if (id !== undefined && addons.has(id)) affected.add(name);
      }
    if (affected.size === 0) return affected;
    const changed = new Set(affected);
    for (const alias of this.#kinds("aliases"))
      if (this.#path(alias).some((name) => changed.has(name))) affected.add(alias);
    return affected;
  }

  /** Returns the names of connections that do not resolve. Why not may change with any service of the environment. */
  danglingConnections(): string[] {
    return [...this.#kinds("connections")].filter((name) => this.#resolve(name).dangling.length > 0);
  }

  #names(): string[] {
    const names = new Set(Object.keys(this.config.env));
    for (const { rows } of this.scopes) for (const name of rows.keys()) names.add(name);
    return [...names].sort();
  }

  #nearest(name: string): StoredVariable | undefined {
    for (const { rows } of this.scopes) {
      const row = rows.get(name);
      if (row) return row;
    }
    return undefined;
  }

  /** Returns the names that are an alias, or a connection, in one of the scopes. */
  *#kinds(kind: "aliases" | "connections"): Generator<string> {
    const seen = new Set<string>();
    for (const scope of this.scopes)
      for (const name of scope[kind])
        if (!seen.has(name)) {
          seen.add(name);
          yield name;
        }
  }

  /** Returns a name and those that it is an alias of, one after the other. */
  #path(name: string): string[] {
    const path = new Set<string>();
    let next: string | undefined = name;
    while (next !== undefined && !path.has(next)) {
      path.add(next);
      next = this.#nearest(next)?.aliasTarget ?? undefined;
    }
    return [...path];
  }

  #changedConnections(): string[] {
    const now = new Map<string, string>();
    for (const name of this.#kinds("connections"))
      now.set(name, this.#resolve(name).dangling[0]?.reason ?? "resolves");
    const before = this.#connections;
    this.#connections = now;
    return [...now].flatMap(([name, how]) => (before.get(name) === how ? [] : [name]));
  }

  /** Resolves one name: what it is an alias of counts, nothing else does. */
  #resolve(name: string): Resolved<SealedValue> {
    const rows = this.#path(name).flatMap((step) =>
      this.scopes.flatMap((scope) => scope.rows.get(step) ?? []),
    );
    const { data, dangling } = resolve({ rows, addons: this.chain.environment.services });
    return {
      data: data.filter((entry) => entry.name === name),
      dangling: dangling.filter((entry) => entry.name === name),
    };
  }

  #render(name: string): ResolvedVariableEvent | undefined {
    const { data, dangling } = this.#resolve(name);
    if (dangling[0]) return setEvent({ name, dangling: create(DanglingVariableSchema, dangling[0]) });
    const [entry] = data;
    if (!entry) {
      const value = this.config.env[name];
      return value === undefined
        ? undefined
        : setEvent({ name, variable: configEntry(this.scope.id, name, value) });
    }
    const { context, sealed } = entry.value!;
    const value = entry.sensitive ? undefined : this.vault!.open(context, sealed!);
    return setEvent({ name, variable: create(ResolvedVariableSchema, { ...entry, value }) });
  }
}

function setEvent(value: MessageInitShape<typeof ResolvedNameSchema>): ResolvedVariableEvent {
  return keepText(create(ResolvedVariableEventSchema, { event: { case: "set", value } }));
}
