import { type Db, execute, many } from "../../kit/postgres/db.ts";
import type { AddonStatus } from "../addons/port.ts";
import { lastChangeAt } from "../usage/sql.ts";

// Finds where notifications were missed: services whose row, runtime and addon servers do not agree.

const NEITHER_LEASED_NOR_DUE =
  "w.lease_owner is null and (w.next_at is null or w.next_at > now() + interval '10 seconds')";

/**
 * Enqueues each service whose row differs from `held`, the complete list of what the runtime holds except in the
 * environments that are `unread`.
 */
export function enqueueDrifted(
  db: Db,
  held: {
    serviceId: string;
    version: number;
    revision: number;
    state: string;
    serving?: { version: number };
    usage?: { at: number }[];
    drifted?: boolean;
  }[],
  unread: string[],
) {
  return execute(
    db,
    "work_compare",
    `with held as (
       select * from unnest($1::text[], $2::int[], $3::int[], $4::text[], $5::int[],
         $6::timestamptz[], $7::bool[])
         as h (service_id, version, revision, state, serving, usage_at, drifted))
     update work w set next_at = now()
     from services s left join held h on h.service_id = s.id
     where w.service_id = s.id and ${NEITHER_LEASED_NOR_DUE}
       and s.type in ('web', 'worker', 'cron') and s.deleting_at is null and s.environment_id <> all($8)
       and ((s.live_version, s.applied_revision, s.runtime_state, s.serving_version)
         is distinct from (h.version, h.revision, h.state, h.serving) or s.usage_at <> h.usage_at or h.drifted)
       and (s.live_version is not null or h.service_id is not null)`,
    [
      held.map((one) => one.serviceId),
      held.map((one) => one.version),
      held.map((one) => one.revision),
      held.map((one) => one.state),
      held.map((one) => one.serving?.version ?? null),
      held.map(lastChangeAt),
      held.map((one) => one.drifted ?? false),
      unread,
    ],
  );
}

/** Enqueues each service that has something unfinished and is neither leased nor due. */
export function enqueueUnfinished(db: Db) {
  return execute(
    db,
    "work_unsettled",
    `update work w set next_at = now() where w.next_at is null and w.lease_owner is null and w.service_id in (
       select service_id from deployments where status in ('queued', 'building', 'built')
       union all
       select id from services where deleting_at is not null or addon_state in ('provisioning', 'failed')
         or (dirty_at is not null and live_version is not null))`,
  );
}

/** Enqueues each addon of these `types` whose row differs from `held`, the complete list of addon servers. */
export function enqueueDriftedAddons(
  db: Db,
  held: Pick<
    AddonStatus,
    "serviceId" | "running" | "outdated" | "size" | "replicas" | "storageGib" | "usage"
  >[],
  types: readonly string[],
) {
  return execute(
    db,
    "addon_compare",
    `with held as (
       select * from unnest($1::text[], $2::bool[], $3::text[], $4::timestamptz[], $6::int[], $7::int[])
         as h (service_id, running, size, usage_at, replicas, storage_gib))
     update work w set next_at = now()
     from services s left join held h on h.service_id = s.id
     where w.service_id = s.id and ${NEITHER_LEASED_NOR_DUE}
       and s.addon_state = 'ready' and s.deleting_at is null and not s.staged
       and (s.addon_next_secret is not null
         or (s.type = 'postgres' and case when (s.config -> 'pooler')::bool
           then s.addon_pooler_revision is distinct from s.addon_revision
           else s.addon_pooler_revision is not null and coalesce(s.addon_pooler_until <= now(), true) end)
         or (s.type = any($5)
         and ((coalesce(h.running, false), h.size, h.usage_at) is distinct from (true, s.config ->> 'size', s.usage_at)
           or h.storage_gib < (s.config -> 'storageGib')::int
           or h.replicas <> coalesce((s.config -> 'replicas')::int, 1))))`,
    [
      held.map((one) => one.serviceId),
      held.map((one) => one.running && !one.outdated),
      held.map((one) => one.size),
      held.map(lastChangeAt),
      types,
      held.map(({ replicas }) => replicas ?? null),
      held.map(({ storageGib = 0 }) => storageGib),
    ],
  );
}

/** Returns those of the ids that belonged to services which were removed. */
export async function listStrays(db: Db, serviceIds: string[]): Promise<string[]> {
  const strays = await many<{ id: string }>(db, "work_strays", "select id from removed where id = any($1)", [
    serviceIds,
  ]);
  return strays.map((row) => row.id);
}
