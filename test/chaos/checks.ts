import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import pg from "pg";
import { findProcessesOf } from "../../services/deployer/shared/process-tree.ts";
import type { Figure } from "../bench/row.ts";
import { createClient, createRecord, type Record } from "./clients.ts";
import { violations } from "./history.ts";
import type { Platform } from "./platform.ts";
import type { Shared } from "./work.ts";

const PATIENCE_MS = 120_000;
const ENDS = ["applied", "failed", "superseded"];

type Audit = { action: string; target: string; requestId: string };
type Deployment = { id: string; version: number; status: string; healthyAt?: string };
type Say = (what: string) => void;

/**
 * Checks what must hold once the platform is idle. Returns the number of exceptions to each rule, and passes each kind
 * of exception to `say`.
 */
export async function check(platform: Platform, shared: Shared, record: Record, say: Say): Promise<Figure[]> {
  const { send } = createClient(platform, "check", createRecord());
  const get = async <T>(path: string) => {
    const answer = await retryUntil(async () => {
      const found = await send("GET", path);
      return found.status === 200 ? found : undefined;
    });
    if (!answer) throw new Error(`GET ${path} was not answered`);
    return answer.body as T;
  };
  const listAll = async <T>(path: string): Promise<T[]> => {
    const found: T[] = [];
    for (let cursor = ""; ; ) {
      const query = `limit=100&cursor=${encodeURIComponent(cursor)}`;
      const page = await get<{ data: T[]; page: { nextCursor: string } }>(`${path}?${query}`);
      found.push(...page.data);
      cursor = page.page.nextCursor;
      if (cursor === "") return found;
    }
  };
  const database = new pg.Client({ connectionString: platform.adminUrl });
  await database.connect();
  const numberOf = async (statement: string) => Number((await database.query(statement)).rows[0].n);
  const figures: Figure[] = [];
  const none = (name: string, exceptions: string[]) => {
    // One exception of each kind, with the number of others.
    const kinds = Map.groupBy(exceptions, (one) => one.replace(/[a-z]+_[0-9a-z]{26}|\d+/g, "…"));
    for (const [first, ...others] of kinds.values())
      say(`${name}: ${first}${others.length > 0 ? ` (and ${others.length} like it)` : ""}`);
    figures.push({ name, value: exceptions.length, unit: "exceptions", goal: "<= 0" });
  };

  none(
    "outboxes drained",
    await until(async () => {
      const left: string[] = [];
      for (const schema of ["identity", "variables", "deployer"]) {
        const n = await numberOf(`select count(*) as n from ${schema}.outbox`);
        if (n > 0) left.push(`${n} events wait in ${schema}`);
      }
      return left;
    }),
  );
  none("answers as documented", record.wrong);
  none("linearizable variables", violations(record.history));

  const deployed: string[] = [];
  for (const web of shared.webs) {
    const S = `${shared.environment}/services/${web}`;
    deployed.push(
      ...(await until(async () => {
        const all = (await listAll<Deployment>(`${S}/deployments`)).toSorted((a, b) => a.version - b.version);
        const { liveVersion } = await get<{ liveVersion?: number }>(S);
        const newest = all.findLast(({ status }) => status === "applied")?.version;
        const known = new Set(record.effects.filter(({ service }) => service === web).map(({ id }) => id));
        return [
          ...all
            .filter(({ version }, at) => version !== at + 1)
            .map(({ version }) => `${web} has a gap before ${version}`),
          ...all
            .filter(({ status }) => !ENDS.includes(status))
            .map(({ version, status }) => `${web} ${version} is ${status}`),
          ...all.filter(({ id }) => !known.has(id)).map(({ version }) => `${web} ${version} has no request`),
          ...[...known].filter((id) => !all.some((one) => one.id === id)).map((id) => `${web} lost ${id}`),
          ...(liveVersion === newest ? [] : [`${web} runs ${liveVersion}, the newest applied is ${newest}`]),
        ];
      })),
    );
  }
  none("deployments dense, ended, each of one key", deployed);

  none(
    "audit records exactly once",
    await until(async () => {
      const audits = await listAll<Audit>(`${shared.account}/audit-events`);
      const byRequest = Map.groupBy(audits, ({ requestId }) => requestId);
      const byTarget = Map.groupBy(audits, ({ action, target }) => `${action} ${target}`);
      const times = (id: string) => byRequest.get(id)?.length ?? 0;
      return [
        ...record.acknowledged
          .filter((id) => times(id) !== 1)
          .map((id) => `${id} was done, recorded ${times(id)} times`),
        ...record.unknown.filter((id) => times(id) > 1).map((id) => `${id} is recorded ${times(id)} times`),
        ...record.refused.filter((id) => times(id) > 0).map((id) => `${id} was refused, yet recorded`),
        ...record.effects.flatMap(({ action, id, ids, name }) => {
          const own = ids
            .flatMap((one) => byRequest.get(one) ?? [])
            .filter((one) => one.action === action).length;
          const onTarget = action === "variable.create" ? 1 : (byTarget.get(`${action} ${id}`)?.length ?? 0);
          return own === 1 && onTarget === 1
            ? []
            : [`${name} (${id}): ${own} records of its requests, ${onTarget} of it`];
        }),
      ];
    }),
  );
  none("dead letters", await deadLetters(platform));

  await send("DELETE", shared.project, { confirmImpact: true });
  none(
    "nothing left of what was deleted",
    await until(async () => {
      const left = findProcessesOf(platform.deployerDir).map(({ path }) => `a process runs in ${path}`);
      for (const folder of ["artifacts", "runtime/services", "store/objects", "store/incoming", "redis"])
        for (const name of await readdir(join(platform.deployerDir, folder)).catch(() => []))
          if (name !== "alive") left.push(`${folder}/${name}`);
      for (const table of [
        "deployer.projects",
        "deployer.services",
        "deployer.usage_intervals",
        "variables.variables",
      ])
        if ((await numberOf(`select count(*) as n from ${table}`)) > 0) left.push(`rows in ${table}`);
      const addons = await numberOf(
        "select count(*) as n from pg_database where datname ~ '^(addon|svc|berth_)'",
      );
      if (addons > 0) left.push(`${addons} databases of addons`);
      return left;
    }),
  );
  none("crashed processes", await findCrashes(platform));
  await database.end();
  return figures;
}

/** Calls `probe` until it returns something, for at most two minutes. */
async function retryUntil<T>(probe: () => Promise<T | undefined>): Promise<T | undefined> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await probe();
    if (found !== undefined || Date.now() > deadline) return found;
    await delay(250);
  }
}

/** Waits until there is no exception; returns those that remain. */
async function until(probe: () => Promise<string[]>): Promise<string[]> {
  let last: string[] = [];
  await retryUntil(async () => {
    last = await probe();
    return last.length === 0 || undefined;
  });
  return last;
}

async function deadLetters({ natsUrl }: Platform): Promise<string[]> {
  const { host, username, password } = new URL(natsUrl);
  const nats = await connect({ servers: host, user: username, pass: password });
  try {
    const { state } = await (await jetstreamManager(nats)).streams.info("BERTH_DEAD", {
      subjects_filter: ">",
    });
    return Object.keys(state.subjects ?? {});
  } finally {
    await nats.close();
  }
}

/** Finds processes that crashed, by their logs. */
async function findCrashes({ logs }: Platform): Promise<string[]> {
  const found: string[] = [];
  for (const file of logs) {
    const text = await readFile(file, "utf8").catch(() => "");
    for (const line of text.split("\n"))
      if (/^Node\.js v\d|uncaughtException|"unhandled rejection"/.test(line))
        found.push(`${file}: ${line.slice(0, 300)}`);
  }
  return found;
}
