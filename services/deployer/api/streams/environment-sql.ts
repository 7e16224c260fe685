import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import { SHOWN, SHOWN_FROM, type ShownService } from "../../projects/services-sql.ts";

/** How long changes are kept, and how old a place may be from which a stream resumes: less, as rows are written first. */
const KEPT = "interval '15 minutes'";
const RESUMED_SECONDS = 600;

/** What a statement has seen: everything of transactions before `xid`, at a time in seconds since 1970. */
export type Mark = { xid: number; at: number };

const MARK = `pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xid,
    extract(epoch from statement_timestamp())::bigint as at`;

type Stage = {
  release: { version: number; image?: string; branch?: string; commit?: string } | null;
  deployment: { version: number; status: string; buildStage?: string } | null;
  deploymentCreatedAt: Timestamp | null;
  wanted: number;
  available: number | null;
  runs: { id: string; status: string }[];
  backupsRevision: string | null;
};

/** A service that an environment shows. */
export type ShownRow = ShownService & Stage;

/** The mark and whether the environment is there, and a service that may have changed: null when it is gone. */
export type EnvironmentRow = Mark & { alive: boolean; serviceId: string | null } & (ShownRow | { id: null });

/** With autoscaling, the cluster wants what there is, within the bounds. */
const WANTED = `case when s.config ? 'autoscaling' and (s.config -> 'replicas')::int > 0
      then greatest((s.config #> '{autoscaling,min}')::int,
        least((s.config #> '{autoscaling,max}')::int, coalesce(s.available, 0)))
      else coalesce((s.config ->> 'replicas')::int, 1) end`;

const STAGE = `
    case when serving.version is not null then jsonb_strip_nulls(jsonb_build_object('version', serving.version,
      'image', serving.image, 'branch', serving.branch, 'commit', serving.commit)) end as release,
    case when under.version is not null then jsonb_strip_nulls(jsonb_build_object('version', under.version,
      'status', under.status, 'buildStage', under.build_stage)) end as deployment,
    under.created_at as "deploymentCreatedAt", ${WANTED} as wanted, s.available,
    array(select jsonb_build_object('id', r.id, 'status', r.status) from runs r
      where r.account_id = s.account_id and r.service_id = s.id and r.status in ('queued', 'running')
      order by r.id desc) as runs,
    case when s.addon_state is not null then md5(concat_ws(' ',
      (select string_agg(b.id || b.status, ' ' order by b.id) from backups b
        where b.service_id = s.id and b.deleting_at is null),
      (select concat(r.backup_id, r.status, r.started_at) from restores r where r.service_id = s.id),
      (select concat(max(p.night), count(*)) from proofs p where p.service_id = s.id and p.status <> 'running')
    )) end as "backupsRevision"`;

const STAGE_FROM = `
  left join deployments serving on serving.service_id = s.id and serving.version = s.serving_version
  left join lateral (
    select d.version, d.status, d.build_stage, d.created_at from deployments d where d.service_id = s.id
    order by d.version desc limit 1
  ) under on under.status in ('queued', 'building', 'built')
    or (under.status = 'applied' and under.version = s.live_version and s.runtime_state = 'starting'
      and under.version is distinct from s.serving_version)`;

/** Returns the services of an environment that changed since a mark; all of them without one. At least one row. */
export function readEnvironment(db: Db, environmentId: string, since: Mark | undefined) {
  return many<EnvironmentRow>(
    db,
    "environment_read",
    `with seen as materialized (
       select ${MARK}, exists (select from environments where id = $1 and deleting_at is null) as alive),
     changed as materialized (
       select distinct service_id as id from environment_changes where environment_id = $1 and xid >= $2
       union select id from services where environment_id = $1 and $2::bigint is null)
     select seen.*, changed.id as "serviceId", ${SHOWN}, ${STAGE}
     from seen left join changed on true
     left join services s on s.id = changed.id and s.environment_id = $1 ${SHOWN_FROM} ${STAGE_FROM}`,
    [environmentId, since?.xid],
  );
}

/** Returns which services of an environment changed since a mark, at most `limit`; undefined when the mark is too old. */
export async function listChanged(db: Db, environmentId: string, { xid, at }: Mark, limit: number) {
  const row = await one<{ known: boolean; ids: string[] }>(
    db,
    "environment_changed",
    `select extract(epoch from clock_timestamp()) - $3::bigint < ${RESUMED_SECONDS} as known,
       array(select distinct service_id from environment_changes where environment_id = $1 and xid >= $2 limit $4) as ids`,
    [environmentId, xid, at, limit],
  );
  return row?.known ? row.ids : undefined;
}

/** Returns whether environments changed since they were read, or are gone, and the mark up to which that is known. */
export function compareEnvironments(db: Db, environments: { id: string; xid: number }[]) {
  return many<Mark & { id: string; stale: boolean }>(
    db,
    "environments_compare",
    `select ${MARK}, f.id,
       exists (select from environment_changes c where c.environment_id = f.id and c.xid >= f.xid)
         or not exists (select from environments e where e.id = f.id and e.deleting_at is null) as stale
     from unnest($1::text[], $2::bigint[]) as f (id, xid)`,
    [environments.map(({ id }) => id), environments.map(({ xid }) => xid)],
  );
}

/** Deletes changes that nobody can resume after. */
export function pruneChanges(db: Db) {
  return execute(
    db,
    "environment_changes_prune",
    `delete from environment_changes where at < clock_timestamp() - ${KEPT}`,
  );
}
