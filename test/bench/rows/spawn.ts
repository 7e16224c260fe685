import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";
import { app, deployArchive } from "./deploy.ts";

const WARM_UP = 3;
const ROUNDS = 20;
/** Prints when it began, in ns since 1970. */
const COMMAND = "date +%s%N; exec sleep 86400";
/** Nothing asks the platform before: that would slow down what is measured. */
const QUIET_MS = 150;

/**
 * From the POST that deploys what is already built until its process has begun, by the time that this prints, compared
 * with the same by hand in one process: one commit that accepts, the statements that apply, and the spawn; alternating.
 */
export const spawning: Bench = {
  names: ["deploy-spawn"],
  run: async (platform) => {
    const { project, S } = await firstVersion(platform);
    const database = await scratchDatabase(platform);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const folder = await mkdtemp(join(tmpdir(), "berth-spawn-"));
    try {
      await client.query(TABLES);
      const hand: number[] = [];
      const ours: number[] = [];
      for (let version = 2; version < 2 + WARM_UP + ROUNDS; version++) {
        const byHandMs = await byHand(client, folder, version);
        const byBerthMs = await byBerth(platform, S, version);
        if (version < 2 + WARM_UP) continue;
        hand.push(byHandMs);
        ours.push(byBerthMs);
      }
      const detail = `${median(ours).toFixed(1)} ms, by hand ${median(hand).toFixed(1)} ms`;
      const value = median(ours.map((ms, round) => ms / hand[round]!));
      return [{ name: "deploy-spawn", value, unit: "x by hand", goal: "<= 3", detail }];
    } finally {
      await client.end();
      await database.drop();
      await rm(folder, { recursive: true });
      await platform.call("DELETE", `${project}?confirmImpact=true`);
    }
  },
};

/** Creates a worker and builds its first version; returns its path and that of its project. */
async function firstVersion(platform: Platform): Promise<{ project: string; S: string }> {
  const { P: project, E } = await newEnvironment(platform, "spawn");
  const config = { command: COMMAND, minReadySeconds: 0 };
  await platform.call("POST", `${E}/services`, { name: "worker", type: "worker", config });
  const S = `${E}/services/worker`;
  await deployArchive(platform, S, execFileSync("tar", ["-cz", "-C", app, "."]));
  await untilHealthy(platform, S, 1);
  return { project, S };
}

async function byBerth(platform: Platform, S: string, version: number): Promise<number> {
  const posted = Date.now();
  await platform.call("POST", `${S}/deploy`, {});
  await delay(QUIET_MS);
  await untilHealthy(platform, S, version);
  for (;;) {
    const { data } = await platform.call<{ data: { message: string }[] }>(
      "GET",
      `${S}/logs?version=${version}`,
    );
    if (data[0]) return Number(data[0].message) / 1e6 - posted;
    await delay(20);
  }
}

async function untilHealthy(platform: Platform, S: string, version: number): Promise<void> {
  for (;;) {
    const found = await platform.call<{ healthyAt?: string; status: string }>(
      "GET",
      `${S}/deployments/${version}`,
    );
    if (found.status === "failed") throw new Error(`version ${version} did not deploy`);
    if (found.healthyAt) return;
    await delay(50);
  }
}

const TABLES = `
  create table services (id text primary key, name text, config jsonb not null, next_version int not null,
    live_version int);
  create table deployments (id text primary key, service_id text not null, version int not null, status text not null,
    config jsonb not null, created_at timestamptz not null default now(), applied_at timestamptz,
    unique (service_id, version));
  create table outbox (seq bigint generated always as identity primary key, id text unique, subject text, payload bytea);
  insert into services values ('svc', 'worker', '{"replicas": 1}', 2);`;

async function byHand(client: pg.Client, folder: string, version: number): Promise<number> {
  const run = (name: string, text: string, values: unknown[]) => client.query({ name, text, values });
  const id = `dep_${version}`;
  const events = (...ids: string[]) =>
    run(
      "events",
      "insert into outbox (id, subject, payload) select e, e, 'payload' from unnest($1::text[]) e",
      [ids.map((event) => `${event}_${id}`)],
    );
  const started = Date.now();
  await client.query("begin");
  await run("lock", "select * from services where name = $1 for no key update", ["worker"]);
  await run(
    "accept",
    `with taken as (update services set next_version = next_version + 1 where id = $2 returning next_version - 1 as v, config)
     insert into deployments (id, service_id, version, status, config) select $1, $2, v, 'queued', config from taken
     returning *`,
    [id, "svc"],
  );
  await events("queued", "audit");
  await client.query("commit");
  await client.query("begin");
  await run(
    "apply",
    `with applied as (update deployments set status = 'applied', applied_at = now() where id = $1 and status = 'queued'
       returning service_id, version)
     update services s set live_version = a.version from applied a where s.id = a.service_id`,
    [id],
  );
  await events("applied");
  const output = join(folder, id);
  const file = openSync(output, "a");
  const child = spawn("/bin/sh", ["-c", COMMAND], { detached: true, stdio: ["ignore", file, file] });
  closeSync(file);
  await client.query("commit");
  let printed = "";
  while (!printed.endsWith("\n")) {
    await delay(20);
    printed = await readFile(output, "utf8");
  }
  child.kill("SIGKILL");
  await once(child, "exit");
  return Number(printed) / 1e6 - started;
}
