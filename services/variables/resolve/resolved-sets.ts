import { create } from "@bufbuild/protobuf";
import {
  type ResolvedVariables,
  ResolvedVariablesSchema,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { invalid, notFound } from "../../kit/rpc/errors.ts";
import { keyPlace } from "../addons/addon-keys.ts";
import { chainOf, type Scope } from "../scopes/scopes.ts";
import { type AddonRow, addonRows } from "../scopes/sql.ts";
import type { DataKeys, Vault } from "../seal/data-keys.ts";
import type { Place } from "../seal/seal.ts";
import { type ChainRow, chainRows, sealedChainRows, variableByName } from "../writes/sql.ts";
import { type Addon, type Resolved, resolve, type VariableRow } from "./resolve.ts";

export type ResolvedSets = ReturnType<typeof createResolvedSets>;

type Sealed = { place: Place; bytes: Buffer };

// Resolution runs on references in place of values (a row's id, or addon and key), so that only what is
// told is decrypted.
const keyRef = (row: AddonRow) => `${row.serviceId}/${row.key}`;

/** Services of one environment by name, as `resolve` wants them; `value` gives what stands for a key's value. */
export function addonsByName(list: AddonRow[], value: (row: AddonRow) => string): Map<string, Addon> {
  const addons = new Map<string, Addon & { keys: Map<string, { value: string; sensitive: boolean }> }>();
  for (const row of list) {
    const addon = addons.get(row.name) ?? { type: row.type, ready: row.ready, keys: new Map() };
    addons.set(row.name, addon);
    if (row.key !== null) addon.keys.set(row.key, { value: value(row), sensitive: row.sensitive! });
  }
  return addons;
}

/** Names of the services that connections lead to. */
export function connectedServices(rows: Pick<ChainRow, "connectionService">[]): string[] {
  return [...new Set(rows.map((row) => row.connectionService).filter((name) => name !== null))];
}

async function readAddons(db: Db, scope: Scope, rows: ChainRow[]): Promise<AddonRow[]> {
  const names = connectedServices(rows);
  return names.length === 0 || !scope.environmentId ? [] : addonRows(db, [scope.environmentId], names);
}

/** Rows of a scope's chain as `resolve` wants them, each literal with its id in place of its value. */
export function referenced(scope: Scope, rows: ChainRow[]): VariableRow[] {
  return rows.map((row) => ({
    ...row,
    scope:
      row.scopeId === scope.projectId
        ? "project"
        : row.scopeId === scope.environmentId
          ? "environment"
          : "service",
    value: row.aliasTarget === null && row.connectionService === null ? row.id : null,
  }));
}

/** The set that a service gets, in plaintext; sensitive entries have a value only when `sensitive`. */
async function materialise(db: Db, keys: DataKeys, scope: Scope, sensitive: boolean): Promise<Resolved> {
  const stored = await sealedChainRows(db, chainOf(scope), sensitive);
  const rows = referenced(scope, stored);
  const addonList = await readAddons(db, scope, stored);
  const sealed = new Map<string, Sealed>();
  const { accountId } = scope;
  for (const [index, { id, name, scopeId, sealed: bytes }] of stored.entries())
    if (bytes) sealed.set(id, { bytes, place: { accountId, scope: rows[index]!.scope, scopeId, name } });
  for (const row of addonList)
    if (row.key !== null)
      sealed.set(keyRef(row), { bytes: row.sealed!, place: keyPlace(accountId, row.serviceId, row.key) });
  const resolved = resolve({ rows, addons: addonsByName(addonList, keyRef) });
  // Also a set that withholds every value needs a key that opens: what cannot be opened is not answered.
  if (rows.every((row) => row.value === null) && sealed.size === 0) return resolved;
  const vault = await keys.of(accountId);
  for (const entry of resolved.data) {
    if (entry.sensitive && !sensitive) {
      delete entry.value;
      continue;
    }
    const { place, bytes } = sealed.get(entry.value!)!;
    entry.value = vault.open(place, bytes);
  }
  return resolved;
}

const CACHE_BYTES = 32 * 1024 * 1024;

/** Resolved sets of services, for reads and for releases. */
export function createResolvedSets({ pool, keys }: { pool: Pool; keys: DataKeys }) {
  // Answers to reads by service, the least recently used first. An entry is used only while the tag that
  // the database gives is the one it was read under, so it is never stale; it holds no sensitive value.
  const cache = new Map<string, { tag: string; message: ResolvedVariables; bytes: number }>();
  let used = 0;

  function remember(scope: Scope, message: ResolvedVariables): void {
    let bytes = 500;
    for (const entry of message.data) bytes += 500 + 2 * (entry.value?.length ?? 0);
    used += bytes;
    cache.set(scope.id, { tag: scope.tag, message, bytes });
    for (const [id, entry] of cache) {
      if (used <= CACHE_BYTES) break;
      cache.delete(id);
      used -= entry.bytes;
    }
  }

  return {
    /** What a read answers: sensitive values withheld. The scope was read before: its tag may be older. */
    async read(scope: Scope): Promise<ResolvedVariables> {
      const kept = cache.get(scope.id);
      if (kept) {
        cache.delete(scope.id);
        if (kept.tag === scope.tag) {
          cache.set(scope.id, kept);
          return kept.message;
        }
        used -= kept.bytes;
      }
      const message = create(ResolvedVariablesSchema, await materialise(pool, keys, scope, false));
      remember(scope, message);
      return message;
    },

    /** What a release gets: everything in plaintext. */
    release: (scope: Scope) => materialise(pool, keys, scope, true),
  };
}

/**
 * The plaintext of one variable, resolved as far as the chain of its own scope reaches. Throws 404, 422
 * with the reason why it dangles, and 503 for what does not open.
 */
export async function reveal(db: Db, vault: Vault, scope: Scope, name: string): Promise<string> {
  const own = await variableByName(db, scope.id, name);
  if (!own) throw notFound("variable");
  const { accountId } = scope;
  if (own.sealed) return vault.open({ accountId, scope: scope.kind, scopeId: scope.id, name }, own.sealed);
  const stored = await chainRows(db, chainOf(scope));
  const rows = referenced(scope, stored);
  const addonList = await readAddons(db, scope, stored);
  const { data, dangling } = resolve({ rows, addons: addonsByName(addonList, keyRef) });
  const entry = data.find((one) => one.name === name);
  if (!entry) {
    const { reason } = dangling.find((one) => one.name === name)!;
    throw invalid("", reason, `The variable does not resolve: ${reason.replaceAll("_", " ")}.`);
  }
  const key = addonList.find((row) => row.key !== null && keyRef(row) === entry.value);
  if (key) return vault.open(keyPlace(accountId, key.serviceId, key.key!), key.sealed!);
  const target = rows.find((row) => row.id === entry.value)!;
  const literal = await variableByName(db, target.scopeId, target.name);
  if (!literal?.sealed) throw invalid("", "alias_target_not_found", "The target was removed just now.");
  const place = { accountId, scope: target.scope, scopeId: target.scopeId, name: target.name };
  return vault.open(place, literal.sealed);
}
