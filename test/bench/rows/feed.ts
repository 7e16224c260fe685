import pg from "pg";
import type { Platform } from "../platform.ts";
import { type Bench, median, quietest } from "../row.ts";
import { settle, superuser } from "../scratch.ts";

const FEW = 1_000;
const MANY = 1_000_000;
const UNREAD = 100;
const ROUNDS = 60;
const PATHS = ["/notifications/unread-count", "/notifications"];

/** Latency of the unread count and of the first page of a feed of a million, compared with one of a thousand. */
export const feed: Bench = {
  names: ["unread-count-1m-rows", "feed-page-1m-rows"],
  run: async (platform) => {
    const client = new pg.Client({ connectionString: (await superuser(platform))("berth") });
    await client.connect();
    try {
      const { id } = await platform.call<{ id: string }>("GET", "/me");
      await fill(client, id, 0, FEW);
      await latencies(platform);
      const few = await quietest(() => latencies(platform));
      await fill(client, id, FEW, MANY);
      const many = await quietest(() => latencies(platform));
      return feed.names.map((name, i) => ({
        name,
        value: many[i]! / few[i]!,
        unit: "x with 1000",
        goal: "<= 1.3",
      }));
    } finally {
      await client.query("delete from notifications.notifications where starts_with(id, 'ntf_bench')");
      await client.end();
    }
  },
};

/** Inserts notifications of a user; the first ones are not read. */
async function fill(client: pg.Client, userId: string, from: number, to: number): Promise<void> {
  await client.query(
    `insert into notifications.notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible,
       channel, frequency, overridden, mail_state, created_at, read_at)
     select 'ntf_bench' || n, $1, '', 'deploy.ready', 'web is live with version ' || n, repeat('x', 80), '{}', 'bench' || n,
       true, 'in_app', 'immediate', false, 'none', now() - n * interval '1 second', case when n >= $4 then now() end
     from generate_series($2::int, $3::int - 1) n`,
    [userId, from, to, UNREAD],
  );
  await settle(client);
}

/** Returns the median latency of each path. */
async function latencies(platform: Platform): Promise<number[]> {
  const taken = PATHS.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, path] of PATHS.entries()) {
      const started = performance.now();
      await platform.call("GET", path);
      if (round >= 10) taken[i]!.push(performance.now() - started);
    }
  return taken.map(median);
}
