import { join } from "node:path";
import { createPool, type Pool } from "../kit/postgres/db.ts";
import { requireSchema } from "../kit/postgres/migrate.ts";
import { type Done, runCommand } from "../kit/process/command.ts";
import { readConfig, url } from "../kit/process/config.ts";
import { encryptionKeys } from "./config.ts";
import { type Keyring, KeyUnavailable, unwrapDataKey, wrapDataKey } from "./seal/seal.ts";
import { listDataKeysToRewrap, rewrapDataKey } from "./seal/sql.ts";

const BATCH = 100;

/**
 * Wraps every data key under the first key of the keyring; values stay as they are. May run beside services,
 * and again after a crash. `locked` lists accounts whose data key no configured key unwraps, which stays as it is.
 */
export async function rotate(pool: Pool, keyring: Keyring): Promise<{ rewrapped: number; locked: string[] }> {
  const locked: string[] = [];
  let rewrapped = 0;
  for (let after = ""; ; ) {
    const batch = await listDataKeysToRewrap(pool, keyring.currentId, after, BATCH);
    for (const row of batch) {
      after = row.accountId;
      try {
        const key = unwrapDataKey(keyring, row.accountId, row);
        rewrapped += await rewrapDataKey(pool, row.accountId, row, wrapDataKey(keyring, row.accountId, key));
      } catch (error) {
        if (!(error instanceof KeyUnavailable)) throw error;
        locked.push(row.accountId);
      }
    }
    if (batch.length < BATCH) return { rewrapped, locked };
  }
}

async function main(): Promise<Done> {
  const config = readConfig(process.env, {
    databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"]),
    encryptionKeys,
  });
  const pool = createPool(config.databaseUrl, { name: "variables-rotate" });
  try {
    await requireSchema(pool, join(import.meta.dirname, "migrations"));
    const { rewrapped, locked } = await rotate(pool, config.encryptionKeys);
    const output = `${rewrapped} data keys are now under ${config.encryptionKeys.currentId}\n`;
    const left = `No configured key opens the data keys of ${locked.join(", ")}; they were left as they are.\n`;
    return locked.length === 0 ? { output, exitCode: 0 } : { output: output + left, exitCode: 1 };
  } finally {
    await pool.end();
  }
}

if (import.meta.main) await runCommand(main);
