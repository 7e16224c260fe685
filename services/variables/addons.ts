import { type Pool, type Tx, transaction } from "../kit/db.ts";
import { isRefusal } from "../kit/errors.ts";
import type { Logger } from "../kit/log.ts";
import type { DataKeys } from "./data-keys.ts";
import { type Catalog, type Scope, unlessNotFound } from "./scopes.ts";
import type { Place } from "./seal.ts";
import * as sql from "./sql-scopes.ts";
import { tellEnvironment } from "./tree.ts";

/** Where a key that an addon publishes is sealed to. */
export function keyPlace(accountId: string, serviceId: string, key: string): Place {
  return { accountId, scope: "addon", scopeId: serviceId, name: key };
}

type Deps = { pool: Pool; catalog: Catalog; keys: DataKeys; log: Logger };
export type Addons = ReturnType<typeof createAddons>;
type AddonScope = Pick<Scope, "accountId" | "projectId" | "environmentId" | "serviceId">;

/** Keeps what managed addons publish: fetched from the deployer, sealed under the account's data key. */
export function createAddons({ pool, catalog, keys, log }: Deps) {
  async function prepare(addon: AddonScope) {
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
    return { ready, revision: Number(revision), keys: list };
  }

  /** Fetches the keys of an addon and stores them, unless they are known; gives whether anything changed. */
  async function refresh(addon: AddonScope, within?: Tx): Promise<boolean> {
    const published = await prepare(addon);
    if (!published) return false;
    if (within) return store(within, addon, published);
    return transaction(pool, (tx) => store(tx, addon, published));
  }

  return {
    refresh,
    /** As `refresh`, for a reader that can go on without: what fails is made good by the addon's event. */
    async tryRefresh(addon: AddonScope): Promise<void> {
      await refresh(addon).catch((error: unknown) => {
        if (!isRefusal(error)) log.warn({ err: error, serviceId: addon.serviceId }, "addon keys wait");
      });
    },
  };
}

async function store(
  tx: Tx,
  { accountId, projectId, environmentId, serviceId }: AddonScope,
  published: { ready: boolean; revision: number; keys: sql.KeyRow[] },
): Promise<boolean> {
  await sql.lockProject(tx, projectId);
  const { ready, revision } = published;
  if (!(await sql.markPublished(tx, { serviceId: serviceId!, ready, revision }))) return false;
  await sql.replaceKeys(tx, serviceId!, published.keys);
  const touched = await sql.touchEnvironment(tx, environmentId!);
  if (touched !== undefined) await tellEnvironment(tx, accountId, environmentId!, touched);
  return true;
}
