import { create } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import {
  type ResolvedVariables,
  ResolvedVariablesSchema,
  type RevealedVariables,
  RevealedVariablesSchema,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Db, Pool, Tx } from "../../kit/postgres/db.ts";
import { keepText } from "../../kit/rpc/json/unary-json.ts";
import { listSealedChainRows } from "../rows/sql.ts";
import { chainOf, type Scope } from "../scopes/scope.ts";
import type { DataKeys, Vault } from "../seal/data-keys.ts";
import { addonsByName, readAddonKeys, type SealedValue, sealedKey, toVariableRows } from "./chain.ts";
import { type ConfigEnv, withConfigEnv } from "./config-env.ts";
import { type Resolved, type ResolvedEntry, resolve } from "./resolve.ts";

export type ResolvedSets = ReturnType<typeof createResolvedSets>;

/** Reads the set of a service, in plaintext; sensitive entries have a value only when `sensitive`. */
async function readSet(db: Db, keys: DataKeys, scope: Scope, sensitive: boolean): Promise<Resolved> {
  const stored = await listSealedChainRows(db, chainOf(scope), sensitive);
  const addonKeys = await readAddonKeys(db, scope, stored);
  const rows = toVariableRows(scope, stored);
  const addons = addonsByName(addonKeys, sealedKey(scope.accountId));
  const { data, dangling } = resolve({ rows, addons });
  // The data key must open even when every value is withheld: otherwise the answer is 503.
  const hasValues = rows.some((row) => row.value !== null) || addonKeys.some((row) => row.key !== null);
  if (!hasValues) return { data: [], dangling };
  const vault = await keys.load(scope.accountId, db);
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
    /** Returns the set for a read, without sensitive values. It may be newer than the tag of the scope. */
    async read(scope: Scope, config: ConfigEnv): Promise<ResolvedVariables> {
      const cached = cache.get(scope.id);
      const tag = scope.tag + config.tag;
      if (cached?.tag === tag) return cached.message;
      const set = create(ResolvedVariablesSchema, await readSet(pool, keys, scope, false));
      const message = keepText({ ...set, data: withConfigEnv(set, scope, config) });
      cache.set(scope.id, { tag, message }, { size: bytesOf(message) });
      return message;
    },

    /** Returns the set with all values in plaintext and the entries of `config`, read in a transaction. Throws 503. */
    async reveal(tx: Tx, scope: Scope, config: ConfigEnv): Promise<RevealedVariables> {
      const set = create(ResolvedVariablesSchema, await readSet(tx, keys, scope, true));
      return create(RevealedVariablesSchema, {
        data: withConfigEnv(set, scope, config).map(({ $typeName: _, value = "", ...entry }) => ({
          ...entry,
          value,
        })),
        dangling: set.dangling,
      });
    },

    /** Returns the set for a release, with all values in plaintext. */
    readForRelease: (scope: Scope) => readSet(pool, keys, scope, true),
  };
}

/** Estimates the memory that an answer takes, as a message and as text. */
function bytesOf({ data }: ResolvedVariables): number {
  return data.reduce((bytes, { value }) => bytes + 1_000 + 4 * (value?.length ?? 0), 1_000);
}
