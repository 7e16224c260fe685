import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { AccountProvisionedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import {
  AccountCreatedSchema,
  AccountDeletedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Entitlements, EntitlementsOf } from "../../kit/plans.ts";
import type { Db, Tx } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import {
  findTier,
  isProvisioned,
  listAccountProjects,
  markDeleted,
  markProvisioned,
  setTier,
} from "./sql.ts";

/** How long a deployment waits for another process that is provisioning its account. */
const LOCK_TIMEOUT = "3s";
const LOCK_NOT_AVAILABLE = "55P03";

/** Provisions an account once. Its record is all that has to be made. */
async function provision(tx: Tx, accountId: string): Promise<void> {
  if ((await markProvisioned(tx, accountId)) === 0) return;
  await emit(tx, AccountProvisionedSchema, accountId, { accountId });
}

/**
 * Provisions the account unless it is, as its AccountCreated may not have arrived yet. Throws 412
 * account_not_provisioned when another process is provisioning it for too long (docs/deployments.md#provisioning).
 */
export async function requireProvisioned(tx: Tx, accountId: string): Promise<void> {
  if (!(await isProvisioned(tx, accountId))) await provisionNow(tx, accountId);
}

/** Provisions an account that is not provisioned, and throws as `requireProvisioned`. */
export async function provisionNow(tx: Tx, accountId: string): Promise<void> {
  await tx.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
  await provision(tx, accountId).catch((error) => {
    if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
    throw refuse(
      412,
      "account_not_provisioned",
      "The account is being provisioned. Try again in a few seconds.",
    );
  });
  await tx.query("set local lock_timeout to default");
}

/** Throws what `requireProvisioned` would throw now, and leaves the account as it is. */
export async function requireProvisionable(tx: Tx, accountId: string): Promise<void> {
  await tx.query("savepoint provisioning");
  try {
    await requireProvisioned(tx, accountId);
  } finally {
    await tx.query("rollback to savepoint provisioning");
  }
}

/** Returns what the account's plan allows: the default one until billing reports another. */
export async function findEntitlements(
  db: Db,
  entitlementsOf: EntitlementsOf,
  accountId: string,
): Promise<Entitlements> {
  return entitlementsOf(await findTier(db, accountId));
}

/** Marks projects as being deleted with everything in them. */
type DeleteProjects = (
  tx: Tx,
  accountId: string,
  projectIds: string[],
  how: { confirmed: true; byUserId: string; backupDays: number },
) => Promise<unknown>;

/** Handlers of the identity service's events. */
export function identityHandlers(
  deleteProjects: DeleteProjects,
  deleteRegistries: (tx: Tx, accountId: string) => Promise<unknown>,
  deleteKeptBackups: (tx: Tx, accountId: string) => Promise<unknown>,
): Handler[] {
  return [
    on(AccountCreatedSchema, (tx, { accountId }) => provision(tx, accountId)),
    on(AccountDeletedSchema, async (tx, { accountId, byUserId }) => {
      // First: a project that is being created is seen below, and none is created afterwards.
      await markDeleted(tx, accountId);
      await deleteRegistries(tx, accountId);
      const projects = await listAccountProjects(tx, accountId);
      await deleteProjects(tx, accountId, projects, { confirmed: true, byUserId, backupDays: 0 });
      // Last: a deletion that keeps some has been waited for.
      await deleteKeptBackups(tx, accountId);
    }),
  ];
}

/** Handlers of the billing service's events. */
export function billingHandlers(): Handler[] {
  return [
    on(TierChangedSchema, async (tx, { accountId, tier, revision }) => {
      await setTier(tx, accountId, tier, revision);
    }),
  ];
}
