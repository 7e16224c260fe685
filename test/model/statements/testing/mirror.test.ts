import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { OWNER_CLASS } from "../../../../services/deployer/due/sql.ts";
import type { Db } from "../../../../services/kit/postgres/db.ts";
import { Choices, seedOf } from "../../choices.ts";
import { Database, Session } from "../../world/database.ts";
import { mirror } from "../mirror.ts";
import { CALLS, START } from "./calls.ts";
import { comparable, readTables, resetServices, startPostgres } from "./postgres.ts";

const SEQUENCES = 12;
const MOST = 120;
const TRANSACTIONS = 30;
const OWNERS = [11, 22, 33];
/** Its SQL is that of history_expire but for the services that it considers. */
const NOT_COMPARED = ["history_expire_all"];

let postgres: Awaited<ReturnType<typeof startPostgres>>;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

test("the mirror's statements do what PostgreSQL's do, in random transactions", {
  timeout: 300_000,
}, async () => {
  const { sql, owners } = postgres;
  const ran = new Set<string>();
  const missed = () => Object.keys(mirror()).filter((name) => !ran.has(name) && !NOT_COMPARED.includes(name));
  let called = 0;
  // Some statements need a state that few transactions reach: more sequences follow until each has run.
  for (let sequence = 0; sequence < SEQUENCES || (missed().length > 0 && sequence < MOST); sequence++) {
    const choices = new Choices(seedOf(inject("seed"), sequence));
    let now = START;
    const db = new Database({ now: () => now, onCommit: () => {}, statements: mirror() });
    await resetServices(sql, db);
    for (const owner of OWNERS) {
      await owners.query("select pg_advisory_lock($1::int, $2::int)", [OWNER_CLASS, owner]);
      db.owners.add(owner);
    }
    let [sqlIds, mirrorIds]: [string[], string[]] = [[], []];
    const trace: string[] = [];
    for (let n = 0; n < TRANSACTIONS; n++) {
      now += choices.of([0, 1, 1_000, 70_000]);
      await sql.query("select set_config('model.now', $1, false)", [String(now)]);
      if (choices.chance(0.05)) {
        const owner = choices.of(OWNERS);
        await owners.query("select pg_advisory_unlock($1::int, $2::int)", [OWNER_CLASS, owner]);
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
        const call = called < CALLS.length ? called : choices.below(CALLS.length);
        called++;
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
          both.push(comparable(await CALLS[call]!(on, { ...facts, ids, choices: new Choices(more) })));
        trace.push(`${call} ${CALLS[call]!.toString().slice(0, 80)} ${JSON.stringify(facts)}`);
        expect(both[1], `after\n${trace.slice(-10).join("\n")}`).toEqual(both[0]);
      }
      const commits = choices.chance(0.8);
      await sql.query(commits ? "commit" : "rollback");
      if (commits) session.commit();
      else {
        session.abort();
        [sqlIds, mirrorIds] = [[...before], [...before]];
      }
      for (const { table, mirrored, actual } of await readTables(sql, db))
        expect(mirrored, `${table} after\n${trace.slice(-10).join("\n")}`).toEqual(actual);
    }
    await owners.query("select pg_advisory_unlock_all()");
  }
  expect(missed()).toEqual([]);
});
