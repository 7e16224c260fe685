import { randomBytes } from "node:crypto";
import pg from "pg";
import { ReleaseHealthySchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../../services/kit/events/outbox.ts";
import { createPool, type Pool, transaction } from "../../../services/kit/postgres/db.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { superuser } from "../scratch.ts";

/** Deployments of so many services become healthy in turns. */
const SERVICES = 20;
const VERSIONS = 50;
const EVENTS = SERVICES * VERSIONS;
const ROUNDS = 4;

/**
 * Events per second from their commit to the row in a user's feed, with one process that asks the deployer and identity
 * about each, compared with a loop that inserts the same rows, each event in a transaction of its own; alternating.
 */
export const notify: Bench = {
  names: ["events-to-notifications"],
  run: async (platform) => {
    const url = (await superuser(platform))("berth");
    const client = new pg.Client({ connectionString: `${url}?options=-c%20search_path%3Dnotifications` });
    await client.connect();
    const outbox = createPool(`${url}?options=-c%20search_path%3Ddeployer`);
    try {
      const ratios: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const raw = await insertRaw(client);
        const ours = await insertByEvents(platform, client, outbox);
        if (round > 0) ratios.push(raw / ours);
      }
      return [{ name: "events-to-notifications", value: median(ratios), unit: "x raw", goal: ">= 0.4" }];
    } finally {
      await outbox.end();
      await client.end();
    }
  },
};

/** Returns how long it takes to insert what the events of a round insert. */
async function insertRaw(client: pg.Client): Promise<number> {
  const userId = `usr_${randomBytes(8).toString("hex")}`;
  const started = performance.now();
  for (let version = 1; version <= EVENTS; version++) {
    await client.query("begin");
    await client.query({
      name: "inbox",
      text: "insert into inbox (consumer, event_id) values ('bench', $1) on conflict do nothing",
      values: [`${userId}-${version}`],
    });
    await client.query({
      name: "notification",
      text: `insert into notifications (id, user_id, account_id, kind, title, body, metadata, dedupe_key, visible, channel,
               frequency, overridden, mail_state)
             values ($1, $2, 'acc_raw', 'deploy.ready', $3, $4, $5, $6, true, 'in_app', 'immediate', false, 'none')
             on conflict (user_id, dedupe_key) do nothing`,
      values: [
        `ntf_${userId}_${version}`,
        userId,
        `web is live with version ${version}`,
        `Version ${version} of web in shop, production is healthy at http://web.localhost:8080.`,
        { projectId: "prj_raw", project: "shop", serviceId: "svc_raw", service: "web", version },
        `deploy.ready:svc_raw:${version}`,
      ],
    });
    await client.query("commit");
  }
  return performance.now() - started;
}

/** Returns how long it takes from the commit of events until all of them are in the feed. */
async function insertByEvents(platform: Platform, client: pg.Client, outbox: Pool): Promise<number> {
  const { accountId } = platform;
  const serviceIds = await createServices(platform, client);
  const count = async () => {
    const { rows } = await client.query<{ count: number }>({
      name: "count",
      text: `select count(*)::int as count from notifications where kind = 'deploy.ready' and metadata->>'serviceId' = any($1)`,
      values: [serviceIds],
    });
    return rows[0]!.count;
  };
  await transaction(outbox, async (tx) => {
    for (let version = 1; version <= VERSIONS; version++)
      for (const serviceId of serviceIds)
        await emit(tx, ReleaseHealthySchema, accountId, { accountId, serviceId, version });
  });
  const started = performance.now();
  while ((await count()) < EVENTS) await new Promise((resolve) => setTimeout(resolve, 20));
  return performance.now() - started;
}

/** Creates services and their deployments. Returns the services' ids. */
async function createServices(platform: Platform, client: pg.Client): Promise<string[]> {
  const { E } = await newEnvironment(platform, "notify");
  const ids: string[] = [];
  for (let n = 0; n < SERVICES; n++) {
    const service = { name: `web-${n}`, type: "web" };
    ids.push((await platform.call<{ id: string }>("POST", `${E}/services`, service)).id);
  }
  await client.query(
    `insert into deployer.deployments (id, service_id, version, status, config, source)
     select 'dep_' || id || n, id, n, 'superseded', '{}', '{}' from unnest($1::text[]) id, generate_series(1, $2::int) n`,
    [ids, VERSIONS],
  );
  return ids;
}
