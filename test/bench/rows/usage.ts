import pg from "pg";
import { type Bench, median } from "../row.ts";
import { superuser } from "../scratch.ts";

const SERVICES = 100;
const SEGMENTS = 10_000;
const ROUNDS = 60;
const WARM_UP = 10;

/** What ran in a calendar month, added up by service. */
const RAW_SUM = `select service_id, sum(rate * replicas * extract(epoch from
    least(coalesce(ended_at, 'infinity'), now()) - greatest(started_at, date_trunc('month', now(), 'UTC'))))
  from billing.usage_segments
  where account_id = $1 and coalesce(ended_at, 'infinity') > date_trunc('month', now(), 'UTC') group by service_id`;

/** Latency of GET compute-usage with 100 services and 10,000 segments in the period, compared with their sum in SQL. */
export const usage: Bench = {
  names: ["compute-usage-10k-segments"],
  run: async (platform) => {
    const client = new pg.Client({ connectionString: (await superuser(platform))("berth") });
    await client.connect();
    try {
      await fill(client, platform.accountId);
      const [ours, raw]: [number[], number[]] = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        const read = await timed(() => platform.call("GET", `/accounts/${platform.accountId}/compute-usage`));
        const sum = await timed(() =>
          client.query({ name: "sum", text: RAW_SUM, values: [platform.accountId] }),
        );
        if (round < WARM_UP) continue;
        ours.push(read);
        raw.push(sum);
      }
      const [name] = usage.names;
      return [{ name: name!, value: median(ours) / median(raw), unit: "x sum in SQL", goal: "<= 5" }];
    } finally {
      await client.query("delete from billing.usage_segments where starts_with(interval_id, 'uin_bench')");
      await client.query("delete from billing.usage_services where starts_with(service_id, 'svc_bench')");
      await client.end();
    }
  },
};

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** Inserts services of an account with segments since the beginning of the month, of which the last ones still run. */
async function fill(client: pg.Client, accountId: string): Promise<void> {
  await client.query(
    `insert into billing.usage_services (service_id, account_id, project_id, type, name)
     select 'svc_bench' || n, $1, 'prj_bench', (array['web', 'worker', 'postgres', 'redis'])[n % 4 + 1], 'service-' || n
     from generate_series(1, $2::int) n`,
    [accountId, SERVICES],
  );
  await client.query(
    `with month as (select date_trunc('month', now(), 'UTC') as start),
       times as (select start, date_trunc('second', (now() - start) / $2::int) as step from month)
     insert into billing.usage_segments (interval_id, seq, account_id, service_id, service_number, size, replicas, rate,
       price_version, started_at, ended_at, last_seen_at)
     select 'uin_bench' || s.service_id || '_' || n, 0, $1, s.service_id, s.number, 'small', n % 3 + 1,
       case n % 2 when 0 then 2250 else 4500 end, '2026-11', start + n * step,
       case when n < $2::int - 1 then start + (n + 1) * step end, now()
     from times, billing.usage_services s, generate_series(0, $2::int - 1) n where starts_with(s.service_id, 'svc_bench')`,
    [accountId, SEGMENTS / SERVICES],
  );
  await client.query("vacuum analyze billing.usage_segments");
}
