import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import { sizes } from "../../kit/sizes.ts";
import { ADDON_TYPES } from "../terms/services.ts";

export async function isProvisioned(db: Db, accountId: string): Promise<boolean> {
  const text = "select id from accounts where id = $1 and provisioned_at is not null";
  return (await one(db, "account_provisioned", text, [accountId])) !== undefined;
}

/** Returns 0 when the account was provisioned before. Waits for another transaction that does the same. */
export function markProvisioned(db: Db, accountId: string) {
  return execute(
    db,
    "account_provision",
    `insert into accounts (id, provisioned_at) values ($1, now())
     on conflict (id) do update set provisioned_at = now() where accounts.provisioned_at is null`,
    [accountId],
  );
}

/** Records the account's plan, also one that only a newer version knows, unless one of the same or a newer revision is recorded. */
export function setTier(db: Db, accountId: string, tier: string, revision: bigint) {
  return execute(
    db,
    "account_tier_set",
    `insert into accounts (id, tier, tier_revision) values ($1, $2, $3)
     on conflict (id) do update set tier = $2, tier_revision = $3
     where accounts.tier is null or accounts.tier_revision < $3`,
    [accountId, tier, revision],
  );
}

type TierRow = { tier: string | null };

/** Returns the account's plan; null or undefined when billing has said nothing about it. */
export async function findTier(db: Db, accountId: string): Promise<string | null | undefined> {
  const text = "select tier from accounts where id = $1";
  return (await one<TierRow>(db, "account_tier", text, [accountId]))?.tier;
}

/** The same, and other transactions that lock the account or change its plan wait until this one ends. */
export async function lockTier(db: Db, accountId: string): Promise<string | null> {
  // The account's AccountCreated may not have arrived yet.
  const text = "insert into accounts (id) values ($1) on conflict (id) do update set id = $1 returning tier";
  return (await one<TierRow>(db, "account_tier_lock", text, [accountId]))!.tier;
}

/** Returns how many projects of the account are not being deleted. */
export async function countProjects(db: Db, accountId: string): Promise<number> {
  const text = "select count(*) as n from projects where account_id = $1 and deleting_at is null";
  return (await one<{ n: number }>(db, "account_projects", text, [accountId]))!.n;
}

/** Returns how many services of a type in the account are not being deleted, staged ones included. */
export async function countServices(db: Db, accountId: string, type: string): Promise<number> {
  const text = `select count(*) as n from projects p join services s on s.project_id = p.id
     where p.account_id = $1 and s.type = $2 and s.deleting_at is null`;
  return (await one<{ n: number }>(db, "account_services", text, [accountId, type]))!.n;
}

/** Returns how many addons of the account are not being deleted, staged ones included. */
export async function countAddons(db: Db, accountId: string): Promise<number> {
  const text = `select count(*) as n from projects p join services s on s.project_id = p.id
     where p.account_id = $1 and s.type = any($2) and s.deleting_at is null`;
  return (await one<{ n: number }>(db, "account_addons", text, [accountId, ADDON_TYPES]))!.n;
}

/** The plan of an environment's account, and the most that its services have or are to have of what plans limit. */
export type EnvironmentUse = TierRow & {
  environmentId: string;
  servicesOfAType: number;
  replicas: number;
  /** Of one replica, in thousandths. */
  cpu: number;
  addons: number;
};

export function listEnvironmentUse(db: Db, environmentIds: string[]): Promise<EnvironmentUse[]> {
  const cpu = Object.fromEntries(Object.entries(sizes).map(([size, amounts]) => [size, amounts.cpu]));
  return many<EnvironmentUse>(
    db,
    "environment_use",
    `with used as (
       select s.environment_id, s.type, count(*) as n,
         max(greatest((s.config ->> 'replicas')::int, (d.config ->> 'replicas')::int,
           (s.config #>> '{autoscaling,max}')::int, (d.config #>> '{autoscaling,max}')::int)) as replicas,
         max(greatest(($2::jsonb ->> (s.config ->> 'size'))::int, ($2::jsonb ->> (d.config ->> 'size'))::int)) as cpu
       from services s left join deployments d on d.service_id = s.id and d.version = s.live_version
       where s.environment_id = any($1) and s.deleting_at is null
       group by s.environment_id, s.type)
     select e.id as "environmentId", a.tier, coalesce(max(u.n), 0) as "servicesOfAType",
       coalesce(max(u.replicas), 0) as replicas, coalesce(max(u.cpu), 0) as cpu,
       coalesce(sum(u.n) filter (where u.type = any($3)), 0)::int as addons
     from environments e left join accounts a on a.id = e.account_id left join used u on u.environment_id = e.id
     where e.id = any($1) group by e.id, a.tier`,
    [environmentIds, JSON.stringify(cpu), ADDON_TYPES],
  );
}

// The account's row may not be there yet.
const DELETION_LOCK = "hashtextextended('berth-account-deletion:' || $1, 0)";

/** Keeps an account from being deleted until the transaction ends. Returns false when it is. */
export async function holdAccount(db: Db, accountId: string): Promise<boolean> {
  await execute(db, "account_hold", `select pg_advisory_xact_lock_shared(${DELETION_LOCK})`, [accountId]);
  const text = "select from accounts where id = $1 and deleted_at is not null";
  return (await one(db, "account_is_deleted", text, [accountId])) === undefined;
}

/** Marks an account as deleted, once nobody holds it. */
export async function markDeleted(db: Db, accountId: string): Promise<void> {
  await execute(db, "account_await", `select pg_advisory_xact_lock(${DELETION_LOCK})`, [accountId]);
  await execute(
    db,
    "account_delete",
    `insert into accounts (id, deleted_at) values ($1, now())
     on conflict (id) do update set deleted_at = coalesce(accounts.deleted_at, now())`,
    [accountId],
  );
}

/** Lists the projects of an account that are not being deleted. */
export async function listAccountProjects(db: Db, accountId: string): Promise<string[]> {
  const text = "select id from projects where account_id = $1 and deleting_at is null order by id";
  const projects = await many<{ id: string }>(db, "account_project_list", text, [accountId]);
  return projects.map(({ id }) => id);
}

/** Counts the resources of an account that are not being deleted. */
export async function countResources(db: Db, accountId: string) {
  const row = await one<{ projects: number; environments: number; services: number }>(
    db,
    "account_resources",
    `select count(distinct p.id)::int as projects, count(distinct e.id)::int as environments,
       count(distinct s.id)::int as services
     from projects p left join environments e on e.project_id = p.id and e.deleting_at is null
     left join services s on s.environment_id = e.id and s.deleting_at is null
     where p.account_id = $1 and p.deleting_at is null`,
    [accountId],
  );
  return row!;
}
