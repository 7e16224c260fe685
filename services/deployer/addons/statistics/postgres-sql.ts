import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type pg from "pg";
import type {
  CollectedStatement,
  PostgresStatistics,
  RunningStatement,
  StatisticsConnections,
  TableStatistics,
  UnusedIndex,
} from "../../../../proto/gen/berth/deployer/v1/metrics_pb.ts";

/** In all statements, so that they can be told from those of apps. */
const OWN = "/* berth statistics */";
/** Of a list, and of a text in characters. */
const MOST = 20;
const MOST_TEXT = 1_000;
/** Sizes are read from the file system: of no more than so many tables, or indexes. */
const MOST_SIZES = 1_000;

type Overview = Pick<
  PostgresStatistics,
  "sizeBytes" | "cacheHitRatio" | "commits" | "rollbacks" | "deadlocks"
> & { version: string; uptimeSeconds: number; statsSince?: Timestamp };

export async function readOverview(client: pg.Client): Promise<Overview> {
  const { rows } = await client.query<Overview>(
    `select ${OWN} split_part(current_setting('server_version'), ' ', 1) as version,
       extract(epoch from date_trunc('second', now() - pg_postmaster_start_time()))::float8 as "uptimeSeconds",
       pg_database_size(datid) as "sizeBytes",
       blks_hit::float8 / nullif(blks_hit + blks_read, 0) as "cacheHitRatio",
       xact_commit as commits, xact_rollback as rollbacks, deadlocks, stats_reset as "statsSince"
     from pg_stat_database where datname = current_database()`,
  );
  return rows[0]!;
}

/** The sessions of the addon's role in its database, except this one. */
const SESSIONS = `pg_stat_activity where datname = current_database() and usename = current_user
  and backend_type = 'client backend' and pid <> pg_backend_pid()`;
const IDLE = "state in ('idle in transaction', 'idle in transaction (aborted)')";

export async function countConnections(client: pg.Client): Promise<Omit<StatisticsConnections, "$typeName">> {
  // The least of what role, database and server allow; some of the server's are kept for administrators.
  const { rows } = await client.query(
    `select ${OWN} open, active, idle as "idleInTransaction",
       (select least(nullif(r.rolconnlimit, -1), nullif(d.datconnlimit, -1),
          current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true), '0')::int)
        from pg_roles r, pg_database d where r.rolname = current_user and d.datname = current_database()) as max
     from (select count(*) as open, count(*) filter (where state = 'active') as active,
             count(*) filter (where ${IDLE}) as idle
           from ${SESSIONS}) as counted`,
  );
  return rows[0];
}

export async function listRunning(client: pg.Client): Promise<Omit<RunningStatement, "$typeName">[]> {
  const { rows } = await client.query(
    `select ${OWN} pid, extract(epoch from clock_timestamp() - began)::float8 as seconds,
       case when ${IDLE} then 'idle_in_transaction' else 'active' end as state,
       wait_event_type || ': ' || wait_event as wait, pg_blocking_pids(pid) as "blockedBy",
       left(query, ${MOST_TEXT}) as text
     from (select *, case when ${IDLE} then xact_start else query_start end as began from ${SESSIONS}) as s
     where state = 'active' or ${IDLE}
     order by began limit ${MOST}`,
  );
  return rows;
}

/**
 * Tables and indexes that are locked exclusively, or about to be: to ask for their size would wait for that. So do tables
 * whose index or TOAST table is.
 */
const LOCKED = `held as (
    select relation from pg_locks where locktype = 'relation' and mode = 'AccessExclusiveLock'
      and database = (select oid from pg_database where datname = current_database())),
  locked as (
    select relation as oid from held
    union select i.indrelid from pg_index i join held h on h.relation = i.indexrelid
    union select c.oid from pg_class c join held h on h.relation = c.reltoastrelid)`;
const PAGE = "current_setting('block_size')::int";
const nameOf = (space: string, name: string) =>
  `case when ${space} = 'public' then ${name}::text else ${space} || '.' || ${name} end`;

export async function listTables(client: pg.Client): Promise<Omit<TableStatistics, "$typeName">[]> {
  const { rows } = await client.query(
    `with ${LOCKED}, candidates as (
       select c.oid, c.relname, c.relpages, n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'm') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
       order by c.relpages desc limit ${MOST_SIZES})
     select ${OWN} ${nameOf("c.nspname", "c.relname")} as name,
       case when c.oid in (select oid from locked) then c.relpages::float8 * ${PAGE}
         else coalesce(pg_total_relation_size(c.oid), 0) end as "sizeBytes",
       coalesce(s.n_live_tup, 0) as rows, coalesce(s.seq_scan, 0) as "seqScans",
       coalesce(s.idx_scan, 0) as "indexScans", coalesce(s.n_dead_tup, 0) as "deadRows",
       greatest(s.last_vacuum, s.last_autovacuum) as "lastVacuumAt"
     from candidates c left join pg_stat_all_tables s on s.relid = c.oid
     order by 2 desc, 1 limit ${MOST}`,
  );
  return rows;
}

export async function listUnusedIndexes(client: pg.Client): Promise<Omit<UnusedIndex, "$typeName">[]> {
  const { rows } = await client.query(
    `with ${LOCKED}, candidates as (
       select i.indexrelid, i.indrelid, c.relname, c.relpages, s.relname as "table", s.schemaname
       from pg_stat_user_indexes s join pg_index i on i.indexrelid = s.indexrelid
         join pg_class c on c.oid = i.indexrelid
       where s.idx_scan = 0 and i.indisvalid and not (i.indisunique or i.indisprimary or i.indisexclusion)
       order by c.relpages desc limit ${MOST_SIZES})
     select ${OWN} relname as name, ${nameOf("schemaname", `"table"`)} as "table",
       case when indrelid in (select oid from locked) then relpages::float8 * ${PAGE}
         else coalesce(pg_relation_size(indexrelid), 0) end as "sizeBytes"
     from candidates order by 3 desc, 1 limit ${MOST}`,
  );
  return rows;
}

/**
 * Returns the statements of a role in a database that took the most time, as `pg_stat_statements` of the database that the
 * client is connected to has collected them; undefined where it is not there. Only those of the client's present role have
 * a text, and so no others are returned.
 */
export async function listCollected(
  client: pg.Client,
  database: string,
): Promise<Omit<CollectedStatement, "$typeName">[] | undefined> {
  const { rows: found } = await client.query<{ view: string }>(
    `select ${OWN} format('%I.pg_stat_statements', n.nspname) as view
     from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_stat_statements'`,
  );
  const [extension] = found;
  if (!extension) return undefined;
  const { rows } = await client.query(
    `select ${OWN} left(query, ${MOST_TEXT}) as text, calls, total_exec_time / 1000 as "totalSeconds",
       mean_exec_time as "meanMilliseconds", rows
     from ${extension.view}
     where userid = (select oid from pg_roles where rolname = current_user)
       and dbid = (select oid from pg_database where datname = $1)
       and position('${OWN}' in query) = 0
     order by total_exec_time desc limit ${MOST}`,
    [database],
  );
  return rows;
}
