import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, many, one } from "../../kit/postgres/db.ts";
import type { Period } from "./periods.ts";

/** A time of usage to rate: a period as far as it has come, in seconds. */
export type Window = Period & {
  /** Until when it is rated: at the latest the end of the period. */
  asOf: number;
  /** An interval without an end of which nothing was heard since this time has ended when it was last seen. */
  heardSince: number;
};

// A segment's end as far as it is known, and how long it is within the window: $2 start, $3 asOf, $4 heardSince, $5 end.
const END = "coalesce(s.ended_at, case when s.last_seen_at < to_timestamp($4) then s.last_seen_at end)";
const SECONDS = `greatest(0, extract(epoch from
  least(coalesce(${END}, 'infinity'), to_timestamp($3)) - greatest(s.started_at, to_timestamp($2))))::bigint`;
const IN_WINDOW = `s.account_id = $1 and s.started_at <= to_timestamp($3) and s.started_at < to_timestamp($5)
  and coalesce(s.ended_at, 'infinity') > to_timestamp($2)`;

export type SumRow = {
  serviceId: string;
  serviceName: string;
  projectName: string;
  type: string;
  rate: number;
  seconds: number;
  replicaSeconds: number;
  running: number;
};

/**
 * Adds up what an account's services ran in a window, by service and rate. A service or project whose name is not known
 * yet is shown by its id.
 */
export function sumUsage(db: Db, accountId: string, { start, asOf, heardSince, end }: Window) {
  return many<SumRow>(
    db,
    "usage_sum",
    `select sums.*, u.type, coalesce(u.name, u.service_id) as "serviceName", coalesce(p.name, u.project_id) as "projectName"
     from (
       select s.service_id as "serviceId", s.rate, sum(${SECONDS})::bigint as seconds,
         sum(s.replicas * ${SECONDS})::bigint as "replicaSeconds",
         coalesce(sum(s.replicas) filter (where ${END} is null), 0)::bigint as running
       from usage_segments s where ${IN_WINDOW} group by s.service_id, s.rate
     ) sums
     join usage_services u on u.service_id = sums."serviceId"
     left join usage_projects p on p.project_id = u.project_id
     where sums.seconds > 0 or sums.running > 0`,
    [accountId, start, asOf, heardSince, end],
  );
}

/** Returns how many addons of an account run. */
export async function countRunningAddons(db: Db, accountId: string): Promise<number> {
  const row = await one<{ n: number }>(
    db,
    "usage_addons_running",
    `select count(distinct s.service_id)::int as n from usage_segments s
     join usage_services u on u.service_id = s.service_id
     where s.account_id = $1 and s.ended_at is null and u.type in ('postgres', 'redis')`,
    [accountId],
  );
  return row!.n;
}

export type LineRow = {
  id: string;
  serviceId: string;
  startedAt: Timestamp;
  endedAt?: Timestamp;
  size: string;
  replicas: number;
  seconds: number;
  rate: number;
  priceVersion: string;
  /** Its sort key. */
  position: string;
};

type Page = { before: { start: string; intervalId: string; seq: string } | undefined; limit: number };

/** Lists the segments of a window, newest first; of one service, or of all. */
export function listLines(
  db: Db,
  accountId: string,
  { start, asOf, heardSince, end }: Window,
  serviceId: string | undefined,
  { before, limit }: Page,
) {
  return many<LineRow>(
    db,
    "usage_lines",
    `select s.interval_id || '.' || s.seq as id, s.service_id as "serviceId", s.started_at as "startedAt",
       ${END} as "endedAt", s.size, s.replicas, ${SECONDS} as seconds, s.rate, s.price_version as "priceVersion",
       extract(epoch from s.started_at)::bigint || ' ' || s.interval_id || ' ' || s.seq as position
     from usage_segments s
     where ${IN_WINDOW} and ${SECONDS} > 0 and ($6::text is null or s.service_id = $6)
       and (s.started_at, s.interval_id, s.seq) <
         (coalesce(to_timestamp($7::bigint), 'infinity'), coalesce($8, ''), coalesce($9::int, 0))
     order by s.started_at desc, s.interval_id desc, s.seq desc limit $10`,
    [
      ...[accountId, start, asOf, heardSince, end, serviceId],
      ...[before?.start, before?.intervalId, before?.seq, limit],
    ],
  );
}
