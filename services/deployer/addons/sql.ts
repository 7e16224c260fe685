import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { Addon, AddonStatus } from "./port.ts";

type AddonFacts = Omit<Addon, "port" | "generation"> & {
  port?: number | null;
  /** How often something about it was published. */
  revision: number;
  secret: Buffer;
  next?: Buffer | null;
};

const FACTS = `id as "serviceId", account_id as "accountId", project_id as "projectId", name, type,
  environment_id as "environmentId", config ->> 'size' as size, addon_port as port,
  addon_revision as revision, addon_secret as secret, addon_next_secret as next`;

/** SQL that is true for a service `a` that is an addon still being made. */
export const BEING_MADE = "a.addon_state = 'provisioning' and a.deleting_at is null";

/** What the facts say it should be, with the password that counts or with the next one. */
export function addonOf(facts: AddonFacts, rotating: boolean): Addon {
  const { secret: _, next: __, revision, port, ...addon } = facts;
  return { ...addon, port: port ?? undefined, generation: revision * 2 + (rotating ? 1 : 0) };
}

/** Keeps the first password that is offered; gives the one that counts. */
export function keepSecret(db: Db, serviceId: string, sealed: Buffer) {
  return one<AddonFacts>(
    db,
    "addon_secret",
    `update services set addon_secret = coalesce(addon_secret, $2)
     where id = $1 and deleting_at is null returning ${FACTS}`,
    [serviceId, sealed],
  );
}

/** An addon that is not being deleted and has a password. */
export function addonFacts(db: Db, serviceId: string) {
  return one<AddonFacts>(
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
  return one<Published>(
    db,
    "addon_ready",
    `update services set addon_state = 'ready', addon_message = null, addon_port = $2,
       addon_revision = addon_revision + 1
     where id = $1 and deleting_at is null
       and (addon_state in ('provisioning', 'failed') or (addon_state = 'ready' and addon_port is distinct from $2))
     ${PUBLISHED}`,
    [serviceId, port],
  );
}

/** Says why an addon does not come without somebody's help. */
export function addonFailed(db: Db, serviceId: string, message: string) {
  return execute(
    db,
    "addon_failed",
    `update services set addon_state = 'failed', addon_message = $2
     where id = $1 and addon_state in ('provisioning', 'failed')
       and (addon_state, addon_message) is distinct from ('failed', $2)`,
    [serviceId, message],
  );
}

/** Says why an addon that is still being provisioned is not there yet. */
export function addonWaiting(db: Db, serviceId: string, message: string) {
  return execute(
    db,
    "addon_waiting",
    `update services set addon_state = 'provisioning', addon_message = $2
     where id = $1 and addon_state in ('provisioning', 'failed')
       and (addon_state, addon_message) is distinct from ('provisioning', $2)`,
    [serviceId, message],
  );
}

/** Asks for a new password; one that is asked for already counts. False when the addon is not ready. */
export async function beginRotation(db: Db, serviceId: string, sealed: Buffer): Promise<boolean> {
  const begun = await execute(
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
  return one<Published>(
    db,
    "addon_rotated",
    `update services set addon_secret = addon_next_secret, addon_next_secret = null, addon_rotated_at = now(),
       addon_port = $3, addon_revision = addon_revision + 1
     where id = $1 and addon_next_secret = $2 and deleting_at is null ${PUBLISHED}`,
    [serviceId, next, port],
  );
}

/** Records how an addon's own server is; only for the owner of the lease. */
export function recordAddon(
  db: Db,
  owner: number,
  serviceId: string,
  { running, problem }: Pick<AddonStatus, "running" | "problem">,
) {
  return execute(
    db,
    "addon_record",
    `update services s set runtime_state = $3, runtime_message = $4
     from work w where s.id = $2 and w.service_id = s.id and w.lease_owner = $1 and s.deleting_at is null`,
    [owner, serviceId, problem?.state ?? (running ? "running" : "crashed"), problem?.message],
  );
}
