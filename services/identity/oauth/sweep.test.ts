import { afterAll, beforeAll, expect, test } from "vitest";
import { startIdentity, type TestIdentity } from "../testing.ts";
import { sweepOauth } from "./sweep.ts";

let it: TestIdentity;
beforeAll(async () => {
  it = await startIdentity();
});
afterAll(() => it?.stop());

const count = async (table: string, where = "true") =>
  Number((await it.pool.query(`select count(*) as n from ${table} where ${where}`)).rows[0].n);

test("expired rows are deleted in batches by an index, 10 000 of each table, and others stay", async () => {
  const rows = "generate_series(1, 20000) n";
  const end = "now() + case when n % 2 = 0 then interval '1 hour' else interval '-1 hour' end";
  const hash = "sha256(n::text::bytea)";
  await it.pool.query(`insert into oauth_challenges select ${hash}, ${hash}, ${end} from ${rows}`);
  await it.pool.query(
    `insert into oauth_artifacts (hash, model, sealed, expires_at) select ${hash}, 'Session', '\\x00', ${end} from ${rows}`,
  );
  await it.pool.query(
    `insert into oauth_grants
     select 'grt_' || n, $1, 'client', 'A', $2, 'mem', 'reader', now(), ${end} - interval '30 days' from ${rows}`,
    [it.ownerId, it.accountId],
  );
  await it.pool.query(
    `insert into oauth_devices (hash, user_code, client_id, scope, resource, ip, requested_at, expires_at, interval_seconds)
     select ${hash}, n::text, 'client', '{}', '{}', '::1', now(), ${end}, 5 from ${rows}`,
  );
  await it.pool.query("analyze");
  const plan = await it.pool.query(
    `explain delete from oauth_artifacts where hash in (select hash from oauth_artifacts where expires_at < now()
     order by expires_at limit 1000 for update skip locked)`,
  );
  expect(JSON.stringify(plan.rows)).toContain("oauth_artifacts_end");
  await sweepOauth(it.pool, new Date());
  for (const table of ["oauth_challenges", "oauth_artifacts", "oauth_devices", "oauth_grants"]) {
    const left = table === "oauth_grants" ? "expires_at > now() - interval '30 days'" : "expires_at > now()";
    expect([table, await count(table), await count(table, left)]).toEqual([table, 10_000, 10_000]);
  }
});
