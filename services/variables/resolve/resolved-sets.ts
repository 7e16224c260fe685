import { create } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import {
  type ResolvedVariables,
  ResolvedVariablesSchema,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { keepText } from "../../kit/rpc/unary-json.ts";
import { chainOf, type Scope } from "../scopes/scope.ts";
import type { DataKeys, Vault } from "../seal/data-keys.ts";
import { addonsByName, readAddonKeys, type SealedValue, sealedKey, toVariableRows } from "./chain.ts";
import { type ConfigEnv, withConfigEnv } from "./config-env.ts";
import { type Resolved, type ResolvedEntry, resolve } from "./resolve.ts";
import { listSealedChainRows } from "./sql.ts";

export type ResolvedSets = ReturnType<typeof createResolvedSets>;

/** Reads the set of a service, in plaintext; sensitive entries have a value only when `sensitive`. */
async function readSet(db: Db, keys: DataKeys, scope: Scope, sensitive: boolean): Promise<Resolved> {
  const stored = await listSealedChainRows(db, chainOf(scope), sensitive);
  const addonKeys = await readAddonKeys(db, scope, stored);
  const rows = toVariableRows(scope, stored);
  const addons = addonsByName(addonKeys, sealedKey(scope.accountId));
  const { data, dangling } = resolve({ rows, addons });
  // Even when every value is withheld the key must open: a set whose values do not open is not answered.
  const hasValues = rows.some((row) => row.value !== null) || addonKeys.some((row) => row.key !== null);
  if (!hasValues) return { data: [], dangling };
  const vault = await keys.load(scope.accountId);
  return { data: data.map((entry) => openEntry(vault, entry, sensitive)), dangling };
}

function openEntry(vault: Vault, entry: ResolvedEntry<SealedValue>, sensitive: boolean): ResolvedEntry {
  if (entry.sensitive && !sensitive) return { ...entry, value: undefined };
  const { context, sealed } = entry.value!;
  return { ...entry, value: vault.open(context, sealed!) };
}

const CACHE_BYTES = 32 * 1024 * 1024;

/** Resolved sets of services, for reads and for releases. */
export function createResolvedSets({ pool, keys }: { pool: Pool; keys: DataKeys }) {
  // Answers to reads by service. An entry is used only while the tag that the database returns is the one it
  // was read under, so it is never stale; it holds no sensitive value.
  const cache = new LRUCache<string, { tag: string; message: ResolvedVariables }>({ maxSize: CACHE_BYTES });

  return {
    /** Returns the set that a read answers: sensitive values withheld. The scope was read before: its tag may be older. */
    async read(scope: Scope, config: ConfigEnv): Promise<ResolvedVariables> {
      const kept = cache.get(scope.id);
      const tag = scope.tag + config.tag;
      if (kept?.tag === tag) return kept.message;
      const set = create(ResolvedVariablesSchema, await readSet(pool, keys, scope, false));
      const message = keepText({ ...set, data: withConfigEnv(set, scope, config) });
      cache.set(scope.id, { tag, message }, { size: bytesOf(message) });
      return message;
    },

    /** Returns the set that a release gets: everything in plaintext. */
    readForRelease: (scope: Scope) => readSet(pool, keys, scope, true),
  };
}

/** Returns about how much memory an answer takes, as a message and as text. */
function bytesOf({ data }: ResolvedVariables): number {
  return data.reduce((bytes, { value }) => bytes + 1_000 + 4 * (value?.length ?? 0), 1_000);
}
