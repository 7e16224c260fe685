import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { isRefusal } from "../../kit/rpc/refusals.ts";
import type { ScopeIds } from "../scopes/scope.ts";
import { type Deployer, ignoreNotFound } from "../scopes/scopes.ts";
import { lockProject, recordPublication } from "../scopes/sql.ts";
import { bumpEnvironmentRevision } from "../scopes/totals-sql.ts";
import { emitEnvironmentChanged } from "../scopes/tree.ts";
import type { DataKeys } from "../seal/data-keys.ts";
import type { SealContext } from "../seal/seal.ts";
import * as sql from "./sql.ts";

/** Returns the context in which the value of an addon's key is sealed. */
export function addonKeyContext(accountId: string, serviceId: string, key: string): SealContext {
  return { accountId, scope: "addon", scopeId: serviceId, name: key };
}

type Deps = { pool: Pool; deployer: Deployer; keys: DataKeys; log: Logger };
export type Addons = ReturnType<typeof createAddons>;
/** The published keys of an addon, sealed but not stored. */
type Publication = { addon: ScopeIds; ready: boolean; revision: number; keys: sql.NewAddonKey[] };

/** Copies what managed addons publish: fetched from the deployer, sealed under the account's data key. */
export function createAddons({ pool, deployer, keys, log }: Deps) {
  /** Returns the current publication of an addon; undefined when the deployer knows no such addon. */
  async function fetch(addon: ScopeIds): Promise<Publication | undefined> {
    const { accountId, serviceId } = addon as Required<ScopeIds>;
    const published = await deployer.getAddonKeys({ serviceId }).catch(ignoreNotFound);
    if (!published) return undefined;
    const { ready, revision } = published;
    const vault = await keys.loadOrCreate(accountId);
    const list = published.keys.map(({ key, value, sensitive }) => ({
      key,
      sensitive,
      size: Buffer.byteLength(value),
      sealed: vault.seal(addonKeyContext(accountId, serviceId!, key), value),
    }));
    return { addon, ready, revision: Number(revision), keys: list };
  }

  /** Fetches the keys of an addon and stores them if they are new. Returns whether anything changed. */
  async function refresh(addon: ScopeIds): Promise<boolean> {
    const publication = await fetch(addon);
    return publication !== undefined && transaction(pool, (tx) => storePublication(tx, publication));
  }

  return {
    fetch,
    refresh,
    /** As `refresh`, but a failure is only logged: the addon's event refreshes the keys again. */
    async tryRefresh(addon: ScopeIds): Promise<void> {
      await refresh(addon).catch((error: unknown) => {
        if (!isRefusal(error))
          log.warn({ err: error, serviceId: addon.serviceId }, "addon keys could not be read yet");
      });
    },
  };
}

/** Stores the publication of an addon if it is new. Returns whether anything changed. */
export async function storePublication(tx: Tx, { addon, ...publication }: Publication): Promise<boolean> {
  const { accountId, projectId, environmentId, serviceId } = addon;
  await lockProject(tx, projectId);
  const { ready, revision, keys } = publication;
  if (!(await recordPublication(tx, { serviceId: serviceId!, ready, revision }))) return false;
  await sql.replaceAddonKeys(tx, serviceId!, keys);
  const environmentRevision = await bumpEnvironmentRevision(tx, environmentId!, serviceId);
  if (environmentRevision !== undefined)
    await emitEnvironmentChanged(tx, accountId, environmentId!, environmentRevision);
  return true;
}
