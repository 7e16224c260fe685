import { createCipheriv, randomBytes } from "node:crypto";
import pg from "pg";
import { newEnvironment } from "../platform.ts";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const MANY = 500;

/** Writes, how often each is made before it is measured, how often it is measured, and how many names it sets. */
const WRITES = [
  { name: "variable-post", warmUp: 200, rounds: 200, names: 1 },
  { name: "batch-500", warmUp: 5, rounds: 15, names: MANY },
];

type Given = { name: string; value: string };

/**
 * A POST of a variable, and a batch of 500, over HTTP, compared with the same statements by hand in one process:
 * values sealed, and in one transaction the scope locked and read, what is replaced read, rows written, the scope's
 * totals, and a record and an event in the outbox; alternating.
 */
export const writes: Bench = {
  names: WRITES.map(({ name }) => name),
  run: async (platform) => {
    const { P } = await newEnvironment(platform, "writes");
    const database = await scratchDatabase(platform);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      await client.query(TABLES);
      const figures = [];
      for (const { name, warmUp, rounds, names } of WRITES) {
        const ratios: number[] = [];
        for (let round = 0; round < warmUp + rounds; round++) {
          const given = Array.from({ length: names }, (_, i) => ({
            name: names === 1 ? `SINGLE_${round}` : `NAME_${i}`,
            value: randomBytes(16).toString("hex"),
          }));
          const hand = await timed(() => byHand(client, given));
          const ours = await timed(() =>
            names === 1
              ? platform.call("POST", `${P}/variables`, given[0])
              : platform.call("POST", `${P}/variables/batch`, { set: given }),
          );
          if (round >= warmUp) ratios.push(ours / hand);
        }
        figures.push({ name, value: median(ratios), unit: "x by hand", goal: "<= 2" });
      }
      return figures;
    } finally {
      await client.end();
      await database.drop();
    }
  },
};

const TABLES = `
  create table scopes (id text primary key, revision bigint not null default 0, variables int, bytes int);
  create table variables (scope_id text not null, name text not null, id text not null unique, revision bigint not null,
    sensitive boolean not null, sealed bytea, size int not null, created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(), primary key (scope_id, name));
  create table outbox (seq bigint generated always as identity primary key, id text unique, subject text, payload bytea);
  insert into scopes values ('scope');`;

const key = randomBytes(32);

function seal({ name, value }: Given): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(Buffer.from(`scope|${name}`));
  return Buffer.concat([nonce, cipher.update(value, "utf8"), cipher.final(), cipher.getAuthTag()]);
}

const newId = () => randomBytes(13).toString("hex");

async function byHand(client: pg.Client, given: Given[]): Promise<string> {
  const run = <Row extends pg.QueryResultRow>(name: string, text: string, values: unknown[]) =>
    client.query<Row>({ name, text, values });
  const names = given.map(({ name }) => name);
  const sealed = given.map(seal);
  await client.query("begin");
  await run("lock", "select id from scopes where id = $1 for no key update", ["scope"]);
  const { rows } = await run<{ revision: string }>("scope", "select * from scopes where id = $1", ["scope"]);
  const revision = Number(rows[0]!.revision) + 1;
  await run("replaced", "select id, name, size from variables where scope_id = $1 and name = any($2)", [
    "scope",
    names,
  ]);
  const written = await run(
    "write",
    `insert into variables (scope_id, revision, id, name, sensitive, sealed, size)
     select $1, $2, *, 32 from unnest($3::text[], $4::text[], $5::bool[], $6::bytea[])
     on conflict (scope_id, name) do update set revision = excluded.revision, sealed = excluded.sealed,
       updated_at = now() returning id, name, revision, sensitive, created_at, updated_at`,
    ["scope", revision, names.map(newId), names, names.map(() => false), sealed],
  );
  await run(
    "totals",
    `update scopes set revision = $2, (variables, bytes) = (
       select count(*), sum(length(name) + size) from variables where scope_id = $1) where id = $1`,
    ["scope", revision],
  );
  const payload = Buffer.from(names.join(","));
  await run(
    "events",
    "insert into outbox (id, subject, payload) select * from unnest($1::text[], $2::text[], $3::bytea[])",
    [
      [newId(), newId()],
      ["audit", "changed"],
      [payload, payload],
    ],
  );
  await client.query("commit");
  return JSON.stringify({ data: written.rows });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}
