import { expect, test } from "vitest";
import { createPool, transaction } from "../../kit/postgres/db.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { POOL } from "../config.ts";
import { openDatabase } from "../due/testing.ts";
import { whileLeased } from "./lease-lock.ts";

test("while many services are applied to a cluster that does not answer, requests are still accepted", async () => {
  const { url, pool: own, ids, drop } = await openDatabase(2 * POOL);
  const pool = createPool(url, { max: POOL });
  const answer = Promise.withResolvers<void>();
  let waiting = 0;
  let applies: Promise<boolean>[] = [];
  try {
    await own.query("update work set lease_owner = 1, lease_until = now() + interval '1 hour'");
    applies = ids.map((id) =>
      whileLeased({ pool, owner: 1 }, id, async () => {
        waiting++;
        await answer.promise;
        return true;
      }),
    );
    await eventually("services are applied", async () => waiting > 1);
    const accepted = await transaction(pool, async (tx) => (await tx.query("select 1")).rowCount);
    expect(accepted).toBe(1);
    answer.resolve();
    expect(await Promise.all(applies)).toEqual(ids.map(() => true));
  } finally {
    answer.resolve();
    await Promise.allSettled(applies);
    await pool.end();
    await drop();
  }
});
