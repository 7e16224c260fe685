import { randomBytes } from "node:crypto";
import pg from "pg";
import { type Bench, median } from "../row.ts";
import { scratchDatabase } from "../scratch.ts";

const ROUNDS = 15;

/** A batch of 500 names over HTTP, compared with one raw multi-row upsert of 500 sealed values, alternating. */
export const batch: Bench = {
  names: ["batch-500"],
  run: async (platform) => {
    const project = await platform.call<{ id: string }>("POST", `/accounts/${platform.accountId}/projects`, {
      name: `batch-${Date.now() % 1e9}`,
    });
    const path = `/accounts/${platform.accountId}/projects/${project.id}/variables/batch`;
    const database = await scratchDatabase(platform);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      await client.query(
        "create table v (id text primary key, scope_id text, name text, sealed bytea, at timestamptz default now(), unique (scope_id, name))",
      );
      const ratios: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const names = Array.from({ length: 500 }, (_, i) => `NAME_${i}`);
        const raw = await timed(() =>
          client.query(
            `insert into v (id, scope_id, name, sealed) select * from unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
             on conflict (scope_id, name) do update set sealed = excluded.sealed, at = now() returning id, name, at`,
            [
              names.map(() => randomBytes(13).toString("hex")),
              names.map(() => "scope"),
              names,
              names.map(() => randomBytes(60)),
            ],
          ),
        );
        const set = names.map((name) => ({ name, value: randomBytes(16).toString("hex") }));
        const ours = await timed(() => platform.call("POST", path, { set }));
        if (round >= 3) ratios.push(ours / raw);
      }
      return [{ name: "batch-500", value: median(ratios), unit: "x raw upsert", goal: "<= 4" }];
    } finally {
      await client.end();
      await database.drop();
    }
  },
};

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}
