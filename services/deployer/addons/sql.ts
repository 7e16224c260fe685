import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { AddonEngine } from "../terms/services.ts";
import type { Addon, AddonStatus } from "./port.ts";

export type AddonRow = Omit<Addon, "port" | "generation" | "engine" | "version" | "storageGib"> & {
  port?: number | null;
  version?: string | null;
  storageGib?: number | null;
  engine?: AddonEngine | null;
  /** How many times its keys were published. */
  revision: number;
  secret: Buffer;
  next?: Buffer | null;
  /** The revision from which on its keys lead through its pooler; another one where they do not, null where there is none. */
  poolerRevision?: number | null;
};

const ADDON_ROW = `id as "serviceId", account_id as "accountId", project_id as "projectId",
  coalesce(object_name, name) as name, type, environment_id as "environmentId", config ->> 'size' as size,
  coalesce((config -> 'replicas')::int, 1) as replicas, config ->> 'version' as version,
  (config -> 'storageGib')::int as "storageGib", addon_engine as engine, addon_port as port,
  addon_revision as revision, addon_secret as secret, addon_next_secret as next,
  addon_pooler_revision as "poolerRevision"`;

/** SQL that is true for a service `a` that is an addon being provisioned. */
export const BEING_MADE = "a.addon_state = 'provisioning' and a.deleting_at is null";

/** Returns the desired state of an addon, with its current password or, when `rotating`, with the next one. */
export function toAddon(row: AddonRow, rotating: boolean): Addon {
  const {
    secret: _,
    next: __,
    poolerRevision: ___,
    revision,
    port,
    engine,
    version,
    storageGib,
    ...addon
  } = row;
  return {
    ...addon,
    version: version ?? undefined,
    storageGib: storageGib ?? undefined,
    engine: engine ?? undefined,
    port: port ?? undefined,
    generation: revision * 2 + (rotating ? 1 : 0),
  };
}

/** Stores a password, and the engine of a new PostgreSQL addon, unless the addon has one; returns it with what it has. */
export function ensureSecret(db: Db, serviceId: string, sealed: Buffer, engine: AddonEngine | undefined) {
  return one<AddonRow>(
    db,
    "addon_secret",
    `update services set addon_secret = coalesce(addon_secret, $2),
       addon_engine = case when addon_secret is null and type = 'postgres' then $3 else addon_engine end
     where id = $1 and deleting_at is null returning ${ADDON_ROW}`,
    [serviceId, sealed, engine],
  );
}

/** Returns an addon that is not being deleted and has a password. */
export function findAddon(db: Db, serviceId: string) {
  return one<AddonRow>(
    db,
    "addon_facts",
    `select ${ADDON_ROW} from services where id = $1 and deleting_at is null and addon_secret is not null`,
    [serviceId],
  );
}

/** A publication of an addon's keys. */
export type Publication = { accountId: string; revision: number };
const PUBLISHED = `returning account_id as "accountId", addon_revision as revision`;

/** Marks an addon as ready, at this port if it has one of its own; undefined when nothing changed. */
export function markReady(db: Db, serviceId: string, port: number | undefined) {
  return one<Publication>(
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

/** Has the databases of all postgres addons made where they are missing: one machine's server may be a new one. */
export function makePostgresAgain(db: Db) {
  return execute(
    db,
    "addon_make_again",
    `with missing as (
       update services set addon_state = 'provisioning'
       where type = 'postgres' and addon_state = 'ready' and deleting_at is null returning id)
     update work set next_at = now() where service_id in (select id from missing)`,
    [],
  );
}

/** Records that an addon cannot be provisioned without somebody's help. Returns 0 when that is known already. */
export function markFailed(db: Db, serviceId: string, message: string) {
  return markUnready(db, serviceId, "failed", message);
}

/** Records what an addon that is being provisioned waits for. */
export function markWaiting(db: Db, serviceId: string, message: string) {
  return markUnready(db, serviceId, "provisioning", message);
}

function markUnready(db: Db, serviceId: string, state: "failed" | "provisioning", message: string) {
  return execute(
    db,
    "addon_unready",
    `update services set addon_state = $2, addon_message = $3
     where id = $1 and addon_state in ('provisioning', 'failed')
       and (addon_state, addon_message) is distinct from ($2, $3)`,
    [serviceId, state, message],
  );
}

/** Requests a new password unless one is requested already. Returns false when the addon is not ready. */
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

/**
 * Makes the next password, which the server accepts now, the current one; undefined when that was done already. `pooled`: its
 * pooler accepts it too, and the keys go on leading through that.
 */
export function completeRotation(
  db: Db,
  serviceId: string,
  next: Buffer,
  port: number | undefined,
  pooled: boolean,
) {
  return one<Publication>(
    db,
    "addon_rotated",
    `update services set addon_secret = addon_next_secret, addon_next_secret = null, addon_rotated_at = now(),
       addon_port = $3, addon_revision = addon_revision + 1,
       addon_pooler_revision = case when $4::bool then addon_revision + 1 else addon_pooler_revision end
     where id = $1 and addon_next_secret = $2 and deleting_at is null ${PUBLISHED}`,
    [serviceId, next, port, pooled],
  );
}

const WANTS_POOLER = "coalesce((config -> 'pooler')::bool, false)";

/** Records that there may be a pooler from now on, and returns its addon; undefined where that is not to have one now. */
export function beginPooler(db: Db, serviceId: string) {
  return one<AddonRow>(
    db,
    "addon_pooler_begin",
    `update services set addon_pooler_revision = coalesce(addon_pooler_revision, 0)
     where id = $1 and deleting_at is null and addon_state = 'ready' and addon_next_secret is null
       and ${WANTS_POOLER} returning ${ADDON_ROW}`,
    [serviceId],
  );
}

/** Has the keys lead through the pooler, which accepts the password of this revision; undefined when that has changed. */
export function publishPooler(db: Db, serviceId: string, revision: number) {
  return one<Publication>(
    db,
    "addon_pooler_publish",
    `update services set addon_revision = addon_revision + 1, addon_pooler_revision = addon_revision + 1,
       addon_pooler_until = null
     where id = $1 and deleting_at is null and addon_revision = $2 and addon_pooler_revision <> addon_revision
       and ${WANTS_POOLER} ${PUBLISHED}`,
    [serviceId, revision],
  );
}

/** Has the keys lead past the pooler, which stays for this long, for those who have the keys of before. */
export function withdrawPooler(db: Db, serviceId: string, seconds: number) {
  return one<Publication>(
    db,
    "addon_pooler_withdraw",
    `update services set addon_revision = addon_revision + 1, addon_pooler_revision = 0,
       addon_pooler_until = now() + make_interval(secs => $2)
     where id = $1 and deleting_at is null and addon_pooler_revision = addon_revision
       and not ${WANTS_POOLER} ${PUBLISHED}`,
    [serviceId, seconds],
  );
}

/** Records that there is no pooler, unless one is wanted again. */
export function forgetPooler(db: Db, serviceId: string) {
  return execute(
    db,
    "addon_pooler_forget",
    `update services set addon_pooler_revision = null, addon_pooler_until = null
     where id = $1 and addon_pooler_revision <> addon_revision and not ${WANTS_POOLER}`,
    [serviceId],
  );
}

/** Records the status of an addon's own server, as the owner of the lease; returns 0 for anybody else. */
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

/**
 * Records which server of an addon takes writes, and returns its account, and since when it is the one; undefined where it was
 * before, or where none is known of.
 */
export function takeOver(db: Db, serviceId: string, primary: string) {
  return one<{ accountId: string; at: Timestamp }>(
    db,
    "addon_take_over",
    `with before as (select id, account_id, addon_primary from services where id = $1 for update),
       taken as (update services s set addon_primary = $2 from before b
         where s.id = b.id and b.addon_primary is distinct from $2 returning s.id)
     select b.account_id as "accountId", now() as at from before b join taken t on t.id = b.id
     where b.addon_primary is not null`,
    [serviceId, primary],
  );
}
