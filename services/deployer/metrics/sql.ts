import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { epochMs } from "../shared/epoch-ms.ts";
import type { Counted, Used } from "./add-up.ts";

/** A key of advisory locks that only sampling takes. */
const SAMPLING = 0x6d657472;

/** Returns the database's time in ms, and whether no other process is sampling until the transaction ends. */
export function beginSampling(db: Db) {
  return one<{ now: number; alone: boolean }>(
    db,
    "metrics_begin",
    `select floor(${epochMs("now()")}) as now, pg_try_advisory_xact_lock($1) as alone`,
    [SAMPLING],
  );
}

/** Returns up to where the counters of services were counted; also of those that were never measured. */
export function listCounted(db: Db, serviceIds: string[]) {
  return many<{ serviceId: string } & { [member in keyof Counted]: Counted[member] | null }>(
    db,
    "metrics_counted",
    `select s.id as "serviceId", floor(${epochMs("c.measured_at")}) as "measuredAt", c.counters
     from services s left join metric_counters c on c.service_id = s.id
     where s.id = any($1) and s.deleting_at is null`,
    [serviceIds],
  );
}

export function setCounted(db: Db, counted: ({ serviceId: string } & Counted)[]) {
  return execute(
    db,
    "metrics_count",
    `insert into metric_counters (service_id, measured_at, counters)
     select s.id, now(), m.counters
     from jsonb_to_recordset($1::jsonb) as m ("serviceId" text, counters jsonb)
     join services s on s.id = m."serviceId" and s.deleting_at is null
     on conflict (service_id) do update set measured_at = excluded.measured_at, counters = excluded.counters`,
    [JSON.stringify(counted)],
  );
}

const HIGHEST = ["memory", "storage_used", "connections", "replicas"];
const SUMS = ["cpu_ms", "covered_ms", "network_in", "network_out"];
const LISTS = ["statuses", "latencies"];
/** What is added to a value that exists: null stays null only if both are. */
const sum = (column: string) => `coalesce(o.${column} + n.${column}, o.${column}, n.${column})`;
const sums = (column: string) =>
  `case when n.${column} is null then o.${column} when o.${column} is null then n.${column} else
     array(select coalesce(a, 0) + coalesce(b, 0) from unnest(o.${column}, n.${column}) with ordinality as t (a, b, at) order by at) end`;

/** Adds what services used to the current minute. A row of another day is replaced. */
export function addUsed(db: Db, used: Used[]) {
  const columns = [...HIGHEST, "restarts", ...SUMS, ...LISTS];
  const old = (column: string) =>
    `case when o.minute = excluded.minute then ${addition(column).replaceAll("n.", "excluded.")} else excluded.${column} end`;
  return execute(
    db,
    "metrics_add",
    `insert into service_metrics as o (service_id, slot, minute, ${columns.join(", ")})
     select s.id, extract(epoch from t.minute)::bigint / 60 % 1440, t.minute, memory, "storageUsed", connections, replicas,
       restarts, "cpuMs", "coveredMs", "networkIn", "networkOut", statuses, latencies
     from jsonb_to_recordset($1::jsonb) as m ("serviceId" text, memory bigint, "storageUsed" bigint, connections integer,
       replicas integer, restarts integer, "cpuMs" double precision, "coveredMs" double precision,
       "networkIn" bigint, "networkOut" bigint, statuses integer[], latencies integer[])
     join services s on s.id = m."serviceId" and s.deleting_at is null,
     date_trunc('minute', now()) as t (minute)
     on conflict (service_id, slot) do update set minute = excluded.minute,
       ${columns.map((column) => `${column} = ${old(column)}`).join(", ")}`,
    [JSON.stringify(used)],
  );
}

function addition(column: string): string {
  if (HIGHEST.includes(column)) return `greatest(o.${column}, n.${column})`;
  return LISTS.includes(column) ? sums(column) : sum(column);
}

/** What a service used in a minute, `at` in ms. */
export type MinuteRow = {
  at: number;
  cpuMs: number | null;
  coveredMs: number | null;
  memory: number | null;
  storageUsed: number | null;
  connections: number | null;
  replicas: number | null;
  restarts: number | null;
  networkIn: number | null;
  networkOut: number | null;
  statuses: number[] | null;
  latencies: number[] | null;
};

/** Returns the minutes of a service from one time to before another (ms), oldest first. */
export function listMinutes(db: Db, serviceId: string, from: number, to: number) {
  return many<MinuteRow>(
    db,
    "metrics_list",
    `select ${epochMs("minute")} as at, cpu_ms as "cpuMs", covered_ms as "coveredMs", memory,
       storage_used as "storageUsed", connections, replicas, restarts, network_in as "networkIn",
       network_out as "networkOut", statuses, latencies
     from service_metrics where service_id = $1 and minute >= $2 and minute < $3 order by minute`,
    [serviceId, new Date(from).toISOString(), new Date(to).toISOString()],
  );
}

/** Returns what a service, and its objects on a cluster, are called. */
export function findNames(db: Db, serviceId: string) {
  return one<{ name: string; objectName: string | null }>(
    db,
    "metrics_names",
    'select name, object_name as "objectName" from services where id = $1',
    [serviceId],
  );
}
