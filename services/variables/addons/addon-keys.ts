import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { isRefusal } from "../../kit/rpc/errors.ts";
import { type Catalog, type Scope, unlessNotFound } from "../scopes/scopes.ts";
import * as sql from "../scopes/sql.ts";
import { tellEnvironment } from "../scopes/tree.ts";
import type { DataKeys } from "../seal/data-keys.ts";
import type { Place } from "../seal/seal.ts";

/** Where a key that an addon publishes is sealed to. */
export function keyPlace(accountId: string, serviceId: string, key: string): Place {
  return { accountId, scope: "addon", scopeId: serviceId, name: key };
}

type Deps = { pool: Pool; catalog: Catalog; keys: DataKeys; log: Logger };
export type Addons = ReturnType<typeof createAddons>;
type AddonScope = Pick<Scope, "accountId" | "projectId" | "environmentId" | "serviceId">;
/** What an addon publishes, sealed and not stored yet. */
export type Published = { addon: AddonScope; ready: boolean; revision: number; keys: sql.KeyRow[] };

/** Keeps what managed addons publish: fetched from the deployer, sealed under the account's data key. */
export function createAddons({ pool, catalog, keys, log }: Deps) {
  /** What the deployer says that an addon publishes now; undefined when there is no such addon any more. */
  async function fetch(addon: AddonScope): Promise<Published | undefined> {
    const { accountId, serviceId } = addon as Required<AddonScope>;
    const published = await catalog.getAddonKeys({ serviceId }).catch(unlessNotFound);
    if (!published) return undefined;
    const { ready, revision } = published;
    const vault = await keys.forWriting(accountId);
    const list = published.keys.map(({ key, value, sensitive }) => ({
      key,
      sensitive,
      size: Buffer.byteLength(value),
      sealed: vault.seal(keyPlace(accountId, serviceId!, key), value),
    }));
    return { addon, ready, revision: Number(revision), keys: list };
  }

  /** Fetches the keys of an addon and stores them, unless they are known; gives whether anything changed. */
  async function refresh(addon: AddonScope): Promise<boolean> {
    const published = await fetch(addon);
    return published !== undefined && transaction(pool, (tx) => storePublished(tx, published));
  }

  return {
    fetch,
    refresh,
    /** As `refresh`, for a reader that can go on without: what fails is made good by the addon's event. */
    async tryRefresh(addon: AddonScope): Promise<void> {
      await refresh(addon).catch((error: unknown) => {
        if (!isRefusal(error)) log.warn({ err: error, serviceId: addon.serviceId }, "addon keys wait");
      });
    },
  };
}

/** Stores what an addon publishes, unless it is known; gives whether anything changed. */
export async function storePublished(tx: Tx, { addon, ...published }: Published): Promise<boolean> {
  const { accountId, projectId, environmentId, serviceId } = addon;
  await sql.lockProject(tx, projectId);
  const { ready, revision } = published;
  if (!(await sql.markPublished(tx, { serviceId: serviceId!, ready, revision }))) return false;
  await sql.replaceKeys(tx, serviceId!, published.keys);
  const touched = await sql.touchEnvironment(tx, environmentId!);
  if (touched !== undefined) await tellEnvironment(tx, accountId, environmentId!, touched);
  return true;
}
