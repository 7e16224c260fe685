import pg from "pg";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median, quietest } from "../row.ts";
import { settle, superuser } from "../scratch.ts";

const FEW = 1_000;
const MANY = 1_000_000;
const ROUNDS = 40;

/**
 * Latency of a page of variables, of resolved variables and of a page of deployment history with a million other rows
 * in the tables, compared with that with a thousand.
 */
export const scale: Bench = {
  names: ["variables-page-1m-rows", "resolved-variables-1m-rows", "deployment-history-1m-rows"],
  run: async (platform) => {
    const { P, E, S } = await seed(platform);
    const client = new pg.Client({ connectionString: (await superuser(platform))("berth") });
    await client.connect();
    try {
      // No trigger runs for rows that are never read, of which a million would take minutes.
      await client.query("set session_replication_role = replica");
      const paths = [`${P}/variables?limit=100`, `${S}/resolved-variables`, `${S}/deployments`];
      const measure = () => quietest(() => latencies(platform, E, paths));
      await fill(client, 0, FEW);
      await latencies(platform, E, paths);
      const few = await measure();
      await fill(client, FEW, MANY);
      const many = await measure();
      return scale.names.map((name, i) => ({
        name,
        value: many[i]! / few[i]!,
        unit: "x with 1000",
        goal: "<= 1.3",
      }));
    } finally {
      await client.end();
    }
  },
};

async function seed(platform: Platform) {
  const { P, E } = await newEnvironment(platform, "scale");
  await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
  const set = Array.from({ length: 100 }, (_, i) => ({ name: `NAME_${i}`, value: "x".repeat(40) }));
  await platform.call("POST", `${P}/variables/batch`, { set });
  return { P, E, S: `${E}/services/web` };
}

/** Inserts rows of scopes and services that are never read, 100 for each. */
async function fill(client: pg.Client, from: number, to: number): Promise<void> {
  const range = [from, to - 1];
  await client.query(
    `insert into variables.variables (scope_id, name, id, revision, sensitive, sealed, size)
     select 'prj_bench' || n / 100, 'NAME_' || n % 100, 'var_bench' || n, 1, false, '\\x00', 1
     from generate_series($1::int, $2::int) n`,
    range,
  );
  await client.query(
    `insert into deployer.services (id, account_id, project_id, environment_id, name, type, source, config, staged)
     select 'svc_bench' || n, account_id, project_id, environment_id, 'b' || n, type, source, config, true
     from (select * from deployer.services where name = 'web' order by created_at desc limit 1) one,
       generate_series($1::int / 100, $2::int / 100) n
     on conflict do nothing`,
    range,
  );
  await client.query(
    `insert into deployer.deployments (id, service_id, version, status, config, source)
     select 'dep_bench' || n, 'svc_bench' || n / 100, n % 100 + 1, 'superseded', '{}', '{}'
     from generate_series($1::int, $2::int) n`,
    range,
  );
  await settle(client);
}

/** Returns the median latency of each path, requested after a write, so that no answer comes from a cache. */
async function latencies(platform: Platform, E: string, paths: string[]): Promise<number[]> {
  const taken = paths.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    await platform.call("POST", `${E}/variables/batch`, { set: [{ name: "TOUCHED", value: String(round) }] });
    for (const [i, path] of paths.entries()) {
      const started = performance.now();
      await platform.call("GET", path);
      if (round >= 5) taken[i]!.push(performance.now() - started);
    }
  }
  return taken.map(median);
}
