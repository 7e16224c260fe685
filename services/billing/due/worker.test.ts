import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createLog } from "../../kit/log.ts";
import { createPool, type Pool } from "../../kit/postgres/db.ts";
import { migrate } from "../../kit/postgres/migrate.ts";
import type { Running } from "../../kit/process/process.ts";
import { eventually, testDatabase } from "../../kit/testing/testing.ts";
import { addEvents } from "./sql.ts";
import { retrySeconds, startCustomerReads } from "./worker.ts";

const log = createLog("reads", "silent");
let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: Pool;
let running: Running[] = [];

beforeAll(async () => {
  database = await testDatabase(["billing"]);
  pool = createPool(database.url("billing"));
  await migrate(pool, `${import.meta.dirname}/../migrations`);
});
afterEach(async () => {
  await Promise.all(running.map((worker) => worker.stop()));
  running = [];
  await pool.query("delete from due_customers");
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

let events = 0;
const report = (...customers: string[]) =>
  addEvents(
    pool,
    customers.map((customerId) => ({ id: `evt_${++events}`, type: "test", created: new Date(), customerId })),
  );

const noPayment = async () => {};
const start = (sync: (customer: string) => Promise<void>) => {
  const worker = startCustomerReads({ pool, sync, syncPayment: sync, log });
  running.push(worker);
  return worker;
};

const due = async () =>
  (
    await pool.query<{ customer_id: string; attempts: number; seconds: number }>(
      `select customer_id, attempts, extract(epoch from next_at - now())::float8 as seconds from due_customers
       order by customer_id`,
    )
  ).rows;
const nobodyIsDue = () => eventually("nobody is due", async () => (await due()).length === 0);

test("a customer is read once for many events", async () => {
  const read: string[] = [];
  await report("a", "b", "a", "a");
  await report("b");
  start(async (customer) => void read.push(customer));
  await nobodyIsDue();
  expect(read.sort()).toEqual(["a", "b"]);
});

test("a payment is read apart from customers, also one that the former version marked as a customer", async () => {
  const read: string[] = [];
  const note = (kind: string) => async (id: string) => void read.push(`${kind} ${id}`);
  const created = new Date();
  await addEvents(pool, [
    { id: `evt_${++events}`, type: "test", created, customerId: "cus_a" },
    { id: `evt_${++events}`, type: "test", created, paymentId: "pi_a" },
  ]);
  await pool.query("insert into due_customers (customer_id) values ('pi_former')");
  running.push(startCustomerReads({ pool, sync: note("customer"), syncPayment: note("payment"), log }));
  const left = "select from due_customers union all select from due_payments";
  await eventually("nothing is due", async () => (await pool.query(left)).rowCount === 0);
  expect(read.sort()).toEqual(["customer cus_a", "payment pi_a", "payment pi_former"]);
});

test("what is reported while a customer is read has it read again", async () => {
  let reads = 0;
  await report("a");
  start(async () => {
    reads++;
    if (reads < 3) await report("a");
  });
  await nobodyIsDue();
  expect(reads).toBe(3);
});

test("a customer at whom the provider hangs, and one who fails, hold up no others", async () => {
  const read: string[] = [];
  const hanging = Promise.withResolvers<void>();
  await report("hangs", "fails");
  const worker = start(async (customer) => {
    if (customer === "hangs") await hanging.promise;
    if (customer === "fails") throw new Error("no such price");
    read.push(customer);
  });
  await eventually("both are tried", async () => (await due()).every(({ attempts }) => attempts === 1));
  await report(...Array.from({ length: 40 }, (_, n) => `customer ${n}`));
  worker.wake();
  await eventually("the others are read", async () => (await due()).length === 2);
  expect(read).toHaveLength(40);
  const [failing, hung] = await due();
  expect([failing?.customer_id, hung?.customer_id]).toEqual(["fails", "hangs"]);
  expect(failing!.seconds).toBeLessThanOrEqual(retrySeconds(failing!.attempts));
  hanging.resolve();
  await eventually("it is read", async () => read.includes("hangs"));
});

test("a customer who failed is tried again, later each time, up to five minutes, and sooner for no event", async () => {
  expect([1, 2, 3, 6, 7, 60].map(retrySeconds)).toEqual([5, 10, 20, 160, 300, 300]);
  await report("fails");
  start(() => Promise.reject(new Error("no such price")));
  await eventually("it was tried", async () => (await due())[0]!.attempts === 1);
  await report("fails");
  expect((await due())[0]).toMatchObject({ attempts: 1 });
  expect((await due())[0]!.seconds).toBeGreaterThan(0);
});

test("several replicas never read one customer at once", async () => {
  const reading = new Set<string>();
  let reads = 0;
  const sync = async (customer: string) => {
    if (reading.has(customer)) throw new Error(`${customer} is read twice at once`);
    reading.add(customer);
    await pool.query("select pg_sleep(0.01)");
    reads++;
    reading.delete(customer);
  };
  const failures: unknown[] = [];
  const watched = (customer: string) =>
    sync(customer).catch((error) => {
      failures.push(error);
      throw error;
    });
  for (let replica = 0; replica < 3; replica++) start(watched);
  const customers = Array.from({ length: 10 }, (_, n) => `customer ${n}`);
  for (let round = 0; round < 10; round++) await report(...customers);
  await nobodyIsDue();
  expect(failures).toEqual([]);
  expect(reads).toBeGreaterThanOrEqual(10);
});

test("a customer is leased as long as it is read; who reads it and dies leaves it to the others", async () => {
  const dying = createPool(database.url("billing"), { name: "dying" });
  const hanging = Promise.withResolvers<void>();
  const worker = startCustomerReads({
    pool: dying,
    sync: () => hanging.promise,
    syncPayment: noPayment,
    log,
  });
  await report("left");
  const leasedUntil = async () => {
    const text = "select extract(epoch from leased_until)::float8 as until from due_customers";
    return (await pool.query<{ until: number | null }>(text)).rows[0]?.until;
  };
  const first = await eventually("it is being read", leasedUntil);
  const read: string[] = [];
  start(async (customer) => void read.push(customer));
  await eventually("it is leased again", async () => (await leasedUntil())! > first);
  expect(read).toEqual([]);
  // From here on nothing of it reaches the database.
  await dying.end();
  await nobodyIsDue();
  expect(read).toEqual(["left"]);
  hanging.resolve();
  await worker.stop();
});

test("the database that is away for a moment ends nothing", async () => {
  let reads = 0;
  const own = createPool(database.url("billing"), { name: "reads" });
  const worker = startCustomerReads({
    pool: own,
    sync: async () => void reads++,
    syncPayment: noPayment,
    log,
  });
  await pool.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reads'");
  await report("a");
  await nobodyIsDue();
  await worker.stop();
  await own.end();
  expect(reads).toBe(1);
});
