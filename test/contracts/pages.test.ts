import { afterAll, beforeAll, expect, test } from "vitest";
import { listInvoices } from "../../services/billing/invoices/sql.ts";
import { listLines } from "../../services/billing/usage/sql.ts";
import { listKept } from "../../services/deployer/backups/kept-sql.ts";
import { listBackups } from "../../services/deployer/backups/sql.ts";
import { listDeployments } from "../../services/deployer/deployments/sql.ts";
import { listDomains } from "../../services/deployer/domains/sql.ts";
import { listRuns } from "../../services/deployer/jobs/sql.ts";
import { listServices } from "../../services/deployer/projects/services-sql.ts";
import { listEnvironments, listProjects } from "../../services/deployer/projects/sql.ts";
import { listAccountsByUser, listMembers } from "../../services/identity/accounts/sql.ts";
import { listInvitations, listInvitationsToUser } from "../../services/identity/invitations/sql.ts";
import { listSessions, listTokens } from "../../services/identity/tokens/sql.ts";
import { createPool, type Db, type Pool } from "../../services/kit/postgres/db.ts";
import { migratedDatabase } from "../../services/kit/testing/testing.ts";
import { listNotifications } from "../../services/notifications/feed/sql.ts";
import { listDeliveries, listWebhooks } from "../../services/notifications/webhooks/sql.ts";
import { listVariables } from "../../services/variables/rows/sql.ts";

let database: Awaited<ReturnType<typeof migratedDatabase>>;
const pools = new Map<string, Pool>();

beforeAll(async () => {
  database = await migratedDatabase();
  for (const service of ["billing", "deployer", "identity", "notifications", "variables"])
    pools.set(service, createPool(database.url(service), { max: 1 }));
});
afterAll(async () => {
  await Promise.all([...pools.values()].map((pool) => pool.end()));
  await database.drop();
});

const at = { now: new Date(), idleSeconds: 60 };
const page = { before: "x", limit: 5 };

const lists: [service: string, list: string, read: (db: Db) => Promise<unknown>][] = [
  ["billing", "invoices", (db) => listInvoices(db, "a", { before: "1 x", limit: 5 })],
  [
    "billing",
    "lines",
    (db) => {
      const window = { start: 1, asOf: 2, heardSince: 1, end: 2 };
      return listLines(db, "a", window, undefined, {
        before: { start: "1", intervalId: "x", seq: "1" },
        limit: 5,
      });
    },
  ],
  ["deployer", "backups", (db) => listBackups(db, "s", "x", 5)],
  ["deployer", "kept backups", (db) => listKept(db, "a", "x", 5)],
  ["deployer", "deployments", (db) => listDeployments(db, "s", 9, 5)],
  ["deployer", "domains", (db) => listDomains(db, "s", "x", 5)],
  ["deployer", "runs", (db) => listRuns(db, "s", undefined, "x", 5)],
  ["deployer", "services", (db) => listServices(db, "e", "x", 5)],
  ["deployer", "projects", (db) => listProjects(db, "a", "x", 5)],
  ["deployer", "environments", (db) => listEnvironments(db, "p", "x", 5)],
  ["identity", "accounts", (db) => listAccountsByUser(db, { userId: "u", accountId: undefined }, page)],
  ["identity", "members", (db) => listMembers(db, "a", page)],
  ["identity", "invitations", (db) => listInvitations(db, "a", page)],
  ["identity", "my invitations", (db) => listInvitationsToUser(db, "u", { ...at, ...page })],
  ["identity", "tokens", (db) => listTokens(db, "u", { ...at, ...page })],
  ["identity", "sessions", (db) => listSessions(db, "u", { ...at, ...page })],
  ["notifications", "feed", (db) => listNotifications(db, "u", false, { before: "1 x", limit: 5 })],
  ["notifications", "unread feed", (db) => listNotifications(db, "u", true, { before: "1 x", limit: 5 })],
  ["notifications", "webhooks", (db) => listWebhooks(db, "a", page)],
  ["notifications", "deliveries", (db) => listDeliveries(db, "w", undefined, page)],
  ["variables", "variables", (db) => listVariables(db, "s", page)],
];

/** Returns the plan that PostgreSQL keeps of a statement for all its values, with an index wherever one can be used. */
async function keptPlan(pool: Pool, { text, values }: { text: string; values: unknown[] }): Promise<string> {
  await pool.query("set plan_cache_mode = force_generic_plan");
  for (const way of ["seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin"])
    await pool.query(`set enable_${way} = off`);
  await pool.query("deallocate all");
  await pool.query(`prepare list as ${text}`);
  const { rows } = await pool.query(
    `explain (costs off) execute list(${values.map(() => "null").join(", ")})`,
  );
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

test.each(lists)("a page in the middle begins in an index: %s, %s", async (service, _list, read) => {
  const statements: { text: string; values: unknown[] }[] = [];
  const query = async (statement: { text: string; values: unknown[] }) => {
    statements.push(statement);
    return { rows: [] };
  };
  await read({ query } as unknown as Db);
  const plan = await keptPlan(pools.get(service)!, statements[0]!);
  const cursor = plan.split("\n").filter((line) => /(<|&<) .*COALESCE\(\$/.test(line));
  expect([plan, cursor.every((line) => /^ *Index Cond: /.test(line)), cursor.length]).toEqual([
    plan,
    true,
    1,
  ]);
});
