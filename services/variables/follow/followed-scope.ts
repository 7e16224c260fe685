import type { AddonKeyRow } from "../addons/sql.ts";
import type { SealedValue } from "../resolve/chain.ts";
import { addonsByName, sealedKey } from "../resolve/chain.ts";
import type { VariableRow } from "../resolve/resolve.ts";
import { type Addon, DERIVED_SENSITIVE } from "../resolve/resolve.ts";
import type { ScopeKind } from "../scopes/scope.ts";
import type { FollowedRow } from "./sql.ts";

export type StoredVariable = VariableRow<SealedValue>;

/** What changed in a scope: names of variables, or undefined where that is unknown, and ids of addons. */
export type ScopeChange = { names: ReadonlySet<string> | undefined; addons: ReadonlySet<string> };

const UNREAD = -1;

/** A scope whose variables are followed: without values of sensitive ones, of others as they are sealed. */
export class FollowedScope {
  readonly id: string;
  readonly kind: ScopeKind;
  readonly accountId: string;
  /** −1 until it was read. */
  revision = UNREAD;
  alive = true;
  configEnvAt: string | null = null;
  readonly rows = new Map<string, StoredVariable>();
  /** The names of its aliases, and of its connections. */
  readonly aliases = new Set<string>();
  readonly connections = new Set<string>();
  /** Of an environment: its services that connections name, by their names. */
  services = new Map<string, Addon<SealedValue>>();
  /** The ids of those services, and the names that were asked for. */
  serviceIds = new Map<string, string>();
  askedNames: ReadonlySet<string> = new Set();

  constructor(accountId: string, kind: ScopeKind, id: string) {
    this.accountId = accountId;
    this.kind = kind;
    this.id = id;
  }

  get isRead(): boolean {
    return this.revision !== UNREAD;
  }

  /** Returns the names of services that its connections name. */
  connectedServices(): string[] {
    return [...this.connections].map((name) => this.rows.get(name)!.connectionService!);
  }

  /** Takes over what was read of the scope: nothing of one that is gone. Returns what changed. */
  apply(read: FollowedRow[]): ScopeChange {
    const head = read.find((row) => row.of === "scope");
    if (!head) {
      this.alive = false;
      return { names: undefined, addons: new Set() };
    }
    const { revision, alive, configEnvAt, names, addons } = head;
    Object.assign(this, { revision, alive, configEnvAt });
    for (const name of names ?? [...this.rows.keys()]) this.#remove(name);
    for (const row of read) if (row.of === "variable") this.#set(row);
    return { names: names ? new Set(names) : undefined, addons: new Set(addons) };
  }

  /** Takes over the services that connections of this environment name. */
  applyServices(list: AddonKeyRow[], asked: ReadonlySet<string>): void {
    this.askedNames = asked;
    // Values of sensitive keys are of no use to those who follow.
    const shown = list.map((row) =>
      row.sensitive || DERIVED_SENSITIVE.has(row.key ?? "") ? { ...row, sealed: null } : row,
    );
    this.services = addonsByName(shown, sealedKey(this.accountId));
    this.serviceIds = new Map(list.map(({ name, serviceId }) => [name, serviceId]));
  }

  #set(row: Extract<FollowedRow, { of: "variable" }>): void {
    const { id, name, sensitive, connectionService, connectionKey, aliasTarget, sealed } = row;
    const isLiteral = aliasTarget === null && connectionService === null;
    const context = { accountId: this.accountId, scope: this.kind, scopeId: this.id, name };
    const value = isLiteral ? { context, sealed } : null;
    const at = { scope: this.kind, scopeId: this.id };
    this.rows.set(name, { id, name, ...at, sensitive, value, connectionService, connectionKey, aliasTarget });
    if (aliasTarget !== null) this.aliases.add(name);
    else if (connectionService !== null) this.connections.add(name);
  }

  #remove(name: string): void {
    this.rows.delete(name);
    this.aliases.delete(name);
    this.connections.delete(name);
  }
}
