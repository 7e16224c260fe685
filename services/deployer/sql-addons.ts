import { count, type Db, maybe } from "../kit/db.ts";
import type { ServiceSize } from "./runtime/port.ts";

export type AddonFacts = { type: string; size: ServiceSize; secret: Buffer; next?: Buffer; port?: number };

const FACTS = `type, config ->> 'size' as size, addon_secret as secret, addon_next_secret as next, addon_port as port`;

/** Keeps the first password that is offered; gives the one that counts. */
export function keepSecret(db: Db, serviceId: string, sealed: Buffer) {
  return maybe<AddonFacts>(
    db,
    "addon_secret",
    `update services set addon_secret = coalesce(addon_secret, $2)
     where id = $1 and deleting_at is null returning ${FACTS}`,
    [serviceId, sealed],
  );
}

/** An addon that is not being deleted and has a password. */
export function addonFacts(db: Db, serviceId: string) {
  return maybe<AddonFacts>(
    db,
    "addon_facts",
    `select ${FACTS} from services where id = $1 and deleting_at is null and addon_secret is not null`,
    [serviceId],
  );
}

type Published = { accountId: string; revision: number };
const PUBLISHED = `returning account_id as "accountId", addon_revision as revision`;

/** It can be used, at this port if it has one of its own; undefined when that is nothing new. */
export function addonReady(db: Db, serviceId: string, port: number | undefined) {
  return maybe<Published>(
    db,
    "addon_ready",
    `update services set addon_state = 'ready', addon_message = null, addon_port = $2,
       addon_revision = addon_revision + 1
     where id = $1 and deleting_at is null
       and (addon_state = 'provisioning' or (addon_state = 'ready' and addon_port is distinct from $2))
     ${PUBLISHED}`,
    [serviceId, port],
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

/** Those that failed for want of a program are tried again: it is there now. */
export function retryFailedAddons(db: Db) {
  return count(
    db,
    "addon_retry_failed",
    `with again as (
       update services set addon_state = 'provisioning', addon_message = null
       where addon_state = 'failed' and type = 'redis' and deleting_at is null returning id)
     update work set next_at = now() where service_id in (select id from again)`,
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

/** Asks for a new password; one that is asked for already counts. False when the addon is not ready. */
export async function beginRotation(db: Db, serviceId: string, sealed: Buffer): Promise<boolean> {
  const begun = await count(
    db,
    "addon_rotate",
    `update services set addon_next_secret = coalesce(addon_next_secret, $2)
     where id = $1 and addon_state = 'ready' and deleting_at is null`,
    [serviceId, sealed],
  );
  return begun === 1;
}

/** The server knows the new password: it is published from now on. Undefined when that was done already. */
export function addonRotated(db: Db, serviceId: string, next: Buffer, port: number | undefined) {
  return maybe<Published>(
    db,
    "addon_rotated",
    `update services set addon_secret = addon_next_secret, addon_next_secret = null, addon_rotated_at = now(),
       addon_port = $3, addon_revision = addon_revision + 1
     where id = $1 and addon_next_secret = $2 and deleting_at is null ${PUBLISHED}`,
    [serviceId, next, port],
  );
}

/** Records whether an addon's own server runs; only for the owner of the lease. */
export function recordAddon(db: Db, owner: number, serviceId: string, running: boolean) {
  return count(
    db,
    "addon_record",
    `update services s set runtime_state = case when $3 then 'running' else 'crashed' end
     from work w where s.id = $2 and w.service_id = s.id and w.lease_owner = $1 and s.deleting_at is null`,
    [owner, serviceId, running],
  );
}
