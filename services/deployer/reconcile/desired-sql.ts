import { type Db, one } from "../../kit/postgres/db.ts";
import { BEING_MADE } from "../addons/sql.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import type { Desired } from "./plan.ts";

/** Returns what `plan` has to know of a service; undefined when the service no longer exists. */
export function readDesired(db: Db, serviceId: string) {
  return one<Desired>(
    db,
    "desired",
    `select ${epochMs("now()")} as now, s.type, s.environment_id as "environmentId", s.staged, s.deleting_at is not null as deleting,
       s.suspended is not null as suspended,
       (select a.tier from accounts a where a.id = s.account_id) as tier,
       s.addon_state as "addonState", ${epochMs("s.dirty_at")} as "dirtyAt", ${epochMs("s.dirty_since")} as "dirtySince",
       jsonb_build_object('state', s.runtime_state, 'reason', s.runtime_reason, 'message', s.runtime_message,
         'serving', s.serving_version, 'available', s.available, 'url', s.url, 'usageAt', ${epochMs("s.usage_at")}) as recorded,
       jsonb_build_object('version', s.next_version - 1, 'revision', s.variables_revision) as newest,
       s.kept_version as "keptVersion", s.config ->> 'size' as size,
       coalesce((s.config -> 'replicas')::int, 1) as replicas, (s.config -> 'storageGib')::int as "storageGib", s.addon_engine as engine, s.addon_next_secret is not null as rotating,
       case when s.type = 'postgres' then jsonb_build_object('wanted', coalesce((s.config -> 'pooler')::bool, false),
         'published', coalesce(s.addon_pooler_revision = s.addon_revision, false),
         'made', s.addon_pooler_revision is not null, 'until', ${epochMs("s.addon_pooler_until")}) end as pooler,
       (select jsonb_build_object('id', d.id, 'version', d.version, 'status', d.status,
          'fromSource', d.build_id is not null, 'createdAt', ${epochMs("d.created_at")},
          'buildStartedAt', ${epochMs("d.build_started_at")}, 'applyStartedAt', ${epochMs("d.apply_started_at")},
          'releaseCommand', case when d.release_command is null then 'none' when d.release_finished_at is not null then 'finished'
            when d.release_started_at is not null then 'started' else 'waiting' end,
          'releaseStartedAt', ${epochMs("d.release_started_at")},
          'waitsUntil', case when exists (select from services a where a.environment_id = s.environment_id
            and a.name = any(d.awaits) and ${BEING_MADE}) then ${epochMs("d.awaits_until")} end)
        from deployments d where d.service_id = s.id and d.status in ('queued', 'building', 'built')) as active,
       (select jsonb_build_object('version', d.version, 'revision', s.applied_revision,
          'healthy', d.healthy_at is not null, 'rolls', s.rolls,
          'scale', jsonb_build_object('replicas', coalesce(d.config -> 'replicas', '1'), 'size', d.config -> 'size',
            'autoscaling', d.config -> 'autoscaling'))
        from deployments d where d.service_id = s.id and d.version = s.live_version) as live,
       (select coalesce(jsonb_agg(jsonb_build_object('deploymentId', d.id, 'accountId', s.account_id,
          'buildId', d.build_id, 'artifact', d.artifact)), '[]') from deployments d
        where d.service_id = s.id and d.leftover and d.status in ('failed', 'superseded', 'applied')
          and not exists (select from runs r where r.service_id = s.id and r.version = d.version and r.due_at is not null)) as leftovers,
       array(select d.id from deployments d where d.service_id = s.id and d.release_left
          and (d.release_finished_at is not null or d.status in ('failed', 'superseded') or s.deleting_at is not null)) as "commandsLeft"
     from services s where s.id = $1`,
    [serviceId],
  );
}
