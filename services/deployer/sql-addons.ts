import { count, type Db, maybe } from "../kit/db.ts";

/** Keeps the first password that is offered; gives the one that counts. */
export function keepSecret(db: Db, serviceId: string, sealed: Buffer) {
  return maybe<{ secret: Buffer }>(
    db,
    "addon_secret",
    `update services set addon_secret = coalesce(addon_secret, $2)
     where id = $1 and deleting_at is null returning addon_secret as secret`,
    [serviceId, sealed],
  );
}

export function addonReady(db: Db, serviceId: string) {
  return maybe<{ accountId: string; revision: number }>(
    db,
    "addon_ready",
    `update services set addon_state = 'ready', addon_message = null, addon_revision = addon_revision + 1
     where id = $1 and addon_state = 'provisioning' and deleting_at is null
     returning account_id as "accountId", addon_revision as revision`,
    [serviceId],
  );
}

export function addonFailed(db: Db, serviceId: string, message: string) {
  return count(
    db,
    "addon_failed",
    `update services set addon_state = 'failed', addon_message = $2
     where id = $1 and addon_state = 'provisioning'`,
    [serviceId, message],
  );
}

/** Says why an addon that is still being provisioned is not there yet. */
export function addonWaiting(db: Db, serviceId: string, message: string) {
  return count(
    db,
    "addon_waiting",
    `update services set addon_message = $2
     where id = $1 and addon_state = 'provisioning' and addon_message is distinct from $2`,
    [serviceId, message],
  );
}
