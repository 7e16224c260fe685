import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { createPool, type Db, type Pool, type Tx } from "../../../kit/postgres/db.ts";
import { migrate } from "../../../kit/postgres/migrate.ts";
import { testDatabase } from "../../../kit/testing/testing.ts";
import * as deletion from "../../catalog/deletion-sql.ts";
import * as services from "../../catalog/services-sql.ts";
import { insertEnvironment, insertProject } from "../../catalog/sql.ts";
import * as history from "../../deployments/retention-sql.ts";
import * as deployments from "../../deployments/sql.ts";
import * as moves from "../../deployments/transitions-sql.ts";
import * as images from "../../images/sql.ts";
import { readDesired } from "../../reconcile/desired-sql.ts";
import * as work from "../../reconcile/queue/sql.ts";
import * as resync from "../../reconcile/resync-sql.ts";
import { markDirty } from "../../releases/dirty-sql.ts";
import * as releases from "../../releases/sql.ts";
import { Choices, seedOf } from "../choices.ts";
import { Database, type Row, Session } from "../database.ts";
import { placeServices } from "../rules.ts";
import { mirror } from "./mirror.ts";

const SEQUENCES = 12;
const TRANSACTIONS = 30;
const OWNERS = [11, 22, 33];
const START = 1_800_000_000_000;
const CONFIG = { port: 8080, replicas: 1, size: "nano" as const, env: {}, autoApply: true };
/** Its SQL is that of history_expire but for the services that it looks at. */
const NOT_COMPARED = ["history_expire_all"];

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;
let sql: Tx;
let owners: Tx;

beforeAll(async () => {
  database = await testDatabase(["deployer"]);
  // Here now() means the functions below, in defaults as well.
  const url = database.url("deployer").replace("search_path%3Ddeployer", "search_path%3Ddeployer,pg_catalog");
  pool = createPool(url, { max: 2 });
  for (const name of ["now", "clock_timestamp"])
    await pool.query(`create function deployer.${name}() returns timestamptz language sql stable as
      $$ select to_timestamp(current_setting('model.now')::float8 / 1000) $$`);
  await pool.query(`alter database ${database.name} set model.now = '0'`);
  await pool.end();
  pool = createPool(url, { max: 2 });
  await migrate(pool, join(import.meta.dirname, "../../migrations"));
  [sql, owners] = [await pool.connect(), await pool.connect()];
});
afterAll(async () => {
  sql?.release();
  owners?.release();
  await pool?.end();
  await database?.drop();
});

type Facts = {
  choices: Choices;
  service: string;
  owner: number;
  /** Deployments that were made, of any service. */
  ids: string[];
  version: number;
  id: string;
  now: number;
};
type Move = (db: Db, facts: Facts) => Promise<unknown>;

const accept: Move = async (db, { service: serviceId, id, choices, ids }) => {
  await deployments.supersede(db, serviceId);
  const made = await deployments.takeVersion(db, serviceId).catch(() => undefined);
  if (made === undefined) return undefined;
  const built = choices.chance(0.5);
  const image = `image-${choices.below(2)}`;
  const run = built ? { buildId: `bld_${id}`, archiveRef: "arc" } : { image, artifact: `image:${image}` };
  const given = { id, serviceId, version: made, config: CONFIG, source: {}, ...run };
  const { version, status } = await deployments.insertDeployment(db, given);
  ids.push(id);
  return { version, status };
};

const restore: Move = async (db, { service, id, version, ids }) => {
  const find = (one: number) => history.findRetainedVersion(db, service, one);
  const from = (await find(version)) ?? (await find(1));
  if (!from) return from;
  await deployments.supersede(db, service);
  const next = await deployments.takeVersion(db, service);
  await history.insertRestored(db, { id, version: next, from: from.deploymentId });
  ids.push(id);
  return from;
};

/** Every second one is an image, of which there are few. */
const artifactOf = (id: string) =>
  id.length % 2 === 0
    ? `directory:bld_${id}`
    : `image:registry.test/apps@sha256:${id.slice(-1).padStart(64, "0")}`;
const held = ({ choices, version }: Facts) =>
  ["svc_0", "svc_1", "svc_gone"].slice(choices.below(3)).map((serviceId) => ({
    serviceId,
    version,
    revision: choices.below(3),
    state: choices.of(["running", "starting"]),
    ...(choices.chance(0.5) && { serving: { version } }),
    ...(choices.chance(0.1) && { drifted: true }),
  }));
const notice = (code: string) => ({ message: code, at: new Date(START).toISOString(), stage: code, code });
const since = ({ choices, now }: Facts) =>
  choices.of([undefined, new Date(now).toISOString(), new Date(now - 1_000).toISOString()]);
const wait = ({ choices }: Facts) => choices.of([undefined, 0, 250, 60_000]);
const any = ({ choices, ids }: Facts) => (ids.length > 0 ? choices.of(ids) : "dep_none");

/** Drawn from evenly: what comes often is what the others need. */
const MOVES: Move[] = [
  accept,
  accept,
  accept,
  restore,
  (db, { service }) => work.enqueue(db, [service]),
  (db, { service }) => work.enqueue(db, [service]),
  (db, { owner, service, choices }) => work.claim(db, owner, choices.chance(0.3) ? [service] : [], 50),
  (db, { owner }) => work.claim(db, owner, [], 50),
  (db, { owner }) => work.claim(db, owner, [], 50),
  (db, { owner, service }) => work.resume(db, owner, service),
  (db, facts) => work.release(db, facts.owner, facts.service, wait(facts)),
  (db, facts) => work.keepLease(db, facts.owner, facts.service, wait(facts)),
  (db, { owner, service }) => work.renew(db, owner, [service]),
  (db, { owner }) => work.releaseAll(db, owner),
  (db) => work.msUntilDue(db),
  (db, facts) => resync.enqueueDrifted(db, held(facts)),
  (db) => resync.enqueueUnfinished(db),
  (db, facts) =>
    resync.listStrays(
      db,
      held(facts).map(({ serviceId }) => serviceId),
    ),
  (db, { service }) => readDesired(db, service),
  (db, { service }) => readDesired(db, service),
  (db, facts) => releases.findRelease(db, any(facts)),
  (db, { service }) => releases.findLiveRelease(db, service),
  (db, { owner, service }) => releases.lockWhileLeased(db, owner, service),
  (db, { owner, service, choices }) =>
    releases.assignRevision(db, owner, service, choices.of(["one", "two"])),
  (db, facts) => {
    const { service: serviceId, version, choices } = facts;
    const noted = { serviceId, version, revision: choices.below(3), dirtyAt: since(facts) };
    return releases.recordRelease(db, noted, Buffer.from("marks"));
  },
  (db, facts) => releases.recordComparison(db, facts.service, facts.choices.chance(0.5), since(facts)),
  (db, { owner, service, version, choices }) => {
    const state = choices.of(["running", "degraded"] as const);
    const status = { serviceId: service, version, revision: 1, state, restarts: 0 };
    return releases.recordStatus(db, owner, { ...status, serving: { version, revision: 1 } });
  },
  (db, { service }) => releases.recordUnappliable(db, service, "It cannot run."),
  (db, facts) => moves.beginBuild(db, facts.owner, any(facts)),
  (db, facts) => moves.beginBuild(db, facts.owner, facts.ids.at(-1) ?? ""),
  (db, facts) => moves.setBuildStage(db, any(facts), "Building image"),
  (db, facts) => moves.setCommit(db, any(facts), "c0ffee"),
  (db, facts) => {
    const deploymentId = facts.ids.at(-1) ?? "";
    const image = facts.choices.of([undefined, "image-0"]);
    return moves.finishBuild(db, facts.owner, { deploymentId, artifact: artifactOf(deploymentId), image });
  },
  (db, facts) => moves.markFailed(db, any(facts), notice("broke")),
  (db, facts) => moves.beginApply(db, any(facts)),
  (db, facts) => moves.markApplied(db, any(facts)),
  (db, facts) => moves.markApplied(db, facts.ids.at(-1) ?? ""),
  (db, { service, version, now }) => moves.markHealthy(db, service, version, new Date(now).toISOString()),
  (db, facts) => moves.setWarnings(db, any(facts), "resolve", [notice("resolve")]),
  (db, { service, version }) => moves.addWarning(db, service, version, notice("slow")),
  (db, facts) =>
    images.artifactInUse(
      db,
      facts.service,
      artifactOf(any(facts)),
      facts.choices.of([undefined, any(facts)]),
    ),
  (db, facts) => images.lockBuiltImage(db, facts.service, artifactOf(any(facts))),
  (db, facts) => images.deleteBuiltImage(db, facts.service, artifactOf(any(facts))),
  (db, facts) => images.holdBuiltImage(db, "acc", artifactOf(any(facts)).split("@")[1] ?? ""),
  (db, facts) => moves.markDiscarded(db, any(facts)),
  (db, { service, version }) => history.findRetainedVersion(db, service, version),
  (db, { service }) => history.expireArtifacts(db, service),
  (db, { service }) => services.lockService(db, { ...PLACE, service: service.replace("svc_", "web") }),
  (db, { service, choices }) =>
    services.updateService(db, service, {}, { ...CONFIG, replicas: choices.below(3) }),
  (db, { service, choices }) => services.rescale(db, service, { ...CONFIG, replicas: choices.below(3) }),
  (db, { service }) => services.rollLive(db, service),
  (db, { service }) => markDirty(db, "service", service),
  (db, { service }) => deletion.listBuildOutputs(db, service),
  (db, { service }) => deletion.lockDeployments(db, service),
  (db, facts) => moves.markLeftover(db, any(facts)),
  (db) => deletion.listDeletedEnvironments(db, ["env", "env_gone"]),
  (db) => deletion.pruneProject(db, "prj"),
  (db, { service }) => deletion.markServices(db, "id", service),
  (db, { service }) => deletion.removeService(db, service),
];

const PLACE = { accountId: "acc", projectId: "prj", environmentId: "env" };
const TIMES = /(_at|_since|_until|At|Since)$/;

/** What both sides say in the same words: times in ms, no undefined, rows in one order. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) {
    const text = new Map(value.map((one) => [one, JSON.stringify(plain(one))]));
    return value.toSorted((one, other) => (text.get(one)! < text.get(other)! ? -1 : 1)).map(plain);
  }
  if (typeof value !== "object" || value === null) return value ?? null;
  const members = Object.entries(value)
    .filter(([name, one]) => one !== undefined && name !== "set_config")
    .map(([name, one]) => [name, TIMES.test(name) && typeof one === "string" ? Date.parse(one) : plain(one)]);
  return Object.fromEntries(members.sort());
}

async function tables(): Promise<Record<string, Row[]>> {
  const { rows } = await sql.query<{ services: Row[]; work: Row[]; deployments: Row[] }>(
    `select ${["services", "work", "deployments", "built_images"]
      .map((name) => `(select coalesce(jsonb_agg(to_jsonb(t)), '[]') from ${name} t) as ${name}`)
      .join(", ")}`,
  );
  return rows[0]!;
}

/** The rows of a table, in the columns that the mirror has. */
function compared(ours: Row[], real: Row[]): { mirrored: unknown; actual: unknown } {
  const columns = Object.keys(ours[0] ?? {}).filter((name) => name !== "applied_variables");
  const cut = (rows: Row[]) =>
    plain(rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))));
  return {
    mirrored: cut(ours),
    actual: cut(real.map((row) => ({ ...row, id: row.id ?? row.digest ?? row.service_id }))),
  };
}

async function place(db: Database): Promise<void> {
  await sql.query("truncate projects, environments, services, work, deployments, built_images cascade");
  await insertProject(sql, "prj", "acc", "shop");
  await insertEnvironment(sql, "env", "acc", "prj", "production");
  for (const n of [0, 1])
    await services.insertService(sql, {
      ...PLACE,
      ...{ id: `svc_${n}`, name: `web${n}`, type: "web", source: {}, config: CONFIG, staged: false },
      addonState: undefined,
    });
  placeServices(db, 2);
}

test("the mirror's statements do what PostgreSQL's do, in random transactions", {
  timeout: 300_000,
}, async () => {
  const ran = new Set<string>();
  let moved = 0;
  for (let sequence = 0; sequence < SEQUENCES; sequence++) {
    const choices = new Choices(seedOf(inject("seed"), sequence));
    let now = START;
    const statements = mirror();
    const db = new Database({ now: () => now, onCommit: () => {}, statements });
    await place(db);
    for (const owner of OWNERS) {
      await owners.query("select pg_advisory_lock($1::int, $2::int)", [work.OWNER_CLASS, owner]);
      db.owners.add(owner);
    }
    let [sqlIds, mirrorIds]: [string[], string[]] = [[], []];
    const said: string[] = [];
    for (let n = 0; n < TRANSACTIONS; n++) {
      now += choices.of([0, 1, 1_000, 70_000]);
      await sql.query("select set_config('model.now', $1, false)", [String(now)]);
      if (choices.chance(0.05)) {
        const owner = choices.of(OWNERS);
        await owners.query("select pg_advisory_unlock($1::int, $2::int)", [work.OWNER_CLASS, owner]);
        db.owners.delete(owner);
      }
      const session = new Session(db);
      const mirrored = {
        query: async ({ name, values }: { name: string; values: unknown[] }) => {
          ran.add(name);
          return session.statement(name, values)();
        },
      } as unknown as Db;
      const before = [...sqlIds];
      await sql.query("begin");
      for (let left = choices.below(3); left >= 0; left--) {
        // Each at least once.
        const move = moved < MOVES.length ? moved : choices.below(MOVES.length);
        moved++;
        const facts = {
          service: choices.of(["svc_0", "svc_1"]),
          owner: choices.of(OWNERS),
          version: 1 + choices.below(4),
          id: `dep_${sequence}_${n}_${left}`,
          now,
        };
        const more = choices.below(2 ** 30);
        const both = [];
        for (const [on, ids] of [
          [sql, sqlIds],
          [mirrored, mirrorIds],
        ] as const)
          both.push(plain(await MOVES[move]!(on, { ...facts, ids, choices: new Choices(more) })));
        said.push(`${move} ${MOVES[move]!.toString().slice(0, 80)} ${JSON.stringify(facts)}`);
        expect(both[1], `after\n${said.slice(-10).join("\n")}`).toEqual(both[0]);
      }
      const keep = choices.chance(0.8);
      await sql.query(keep ? "commit" : "rollback");
      if (keep) session.commit();
      else {
        session.abort();
        [sqlIds, mirrorIds] = [[...before], [...before]];
      }
      const real = await tables();
      for (const table of ["services", "work", "deployments", "built_images"] as const) {
        const { mirrored, actual } = compared([...db.committed[table].values()], real[table]!);
        expect(mirrored, `${table} after\n${said.slice(-10).join("\n")}`).toEqual(actual);
      }
    }
    await owners.query("select pg_advisory_unlock_all()");
  }
  const missed = Object.keys(mirror()).filter((name) => !ran.has(name) && !NOT_COMPARED.includes(name));
  expect(missed).toEqual([]);
});
