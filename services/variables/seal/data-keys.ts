import { createHmac, type KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Logger } from "../../kit/log.ts";
import type { Db, Pool } from "../../kit/postgres/db.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";
import { fingerprint, type NamedValue } from "./fingerprint.ts";
import {
  type Keyring,
  KeyUnavailable,
  newDataKey,
  open,
  SealBroken,
  type SealContext,
  seal,
  unwrapDataKey,
  wrapDataKey,
} from "./seal.ts";
import { findDataKey, insertDataKey } from "./sql.ts";

/** Seals and opens values under the data key of one account. */
export type Vault = {
  seal(context: SealContext, plaintext: string): Buffer;
  /** Throws 503 for a value that cannot be decrypted. */
  open(context: SealContext, sealed: Buffer): string;
  fingerprint(data: readonly NamedValue[]): string;
};

export type DataKeys = ReturnType<typeof createDataKeys>;

const MAX_CACHED = 10_000;

/**
 * The data keys of accounts. Unwrapped keys are cached: a data key never changes, only the key that wraps it. A data key
 * that no configured key unwraps is 503, and the log says why.
 */
export function createDataKeys({ pool, keyring, log }: { pool: Pool; keyring: Keyring; log: Logger }) {
  const vaults = new LRUCache<string, Vault>({ max: MAX_CACHED });

  const orUnavailable = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof KeyUnavailable || error instanceof SealBroken)) throw error;
      log.error({ reason: error.message }, "stored values cannot be opened");
      throw unavailable(
        "Stored values cannot be opened right now. The operator has to check the encryption keys.",
      );
    }
  };

  function vaultOf(key: KeyObject): Vault {
    // Derived from the data key, which rotation does not change: fingerprints are compared over time.
    const mac = createHmac("sha256", key).update("berth:fingerprint:1").digest();
    return {
      seal: (context, plaintext) => seal(key, context, plaintext),
      open: (context, sealed) => orUnavailable(() => open(key, context, sealed)),
      fingerprint: (data) => fingerprint(data, mac),
    };
  }

  async function load(accountId: string, db: Db = pool): Promise<Vault> {
    const known = vaults.get(accountId);
    if (known) return known;
    const row = await findDataKey(db, accountId);
    const vault = orUnavailable(() => {
      if (!row) throw new KeyUnavailable(`there are sealed values of ${accountId} but no data key`);
      return vaultOf(unwrapDataKey(keyring, accountId, row));
    });
    vaults.set(accountId, vault);
    return vault;
  }

  return {
    /** Returns the vault of an account that has stored values; reads it on `db` within a transaction. Throws 503. */
    load,
    /** Returns the vault of an account that is about to store values; creates its data key if it has none. Throws 503. */
    async loadOrCreate(accountId: string): Promise<Vault> {
      if (!vaults.has(accountId) && !(await findDataKey(pool, accountId)))
        await insertDataKey(pool, accountId, wrapDataKey(keyring, accountId, newDataKey()));
      return load(accountId);
    },
  };
}
