import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";
import type { ServedHost } from "../runtime/port.ts";
import type { State } from "./decide.ts";

export type DomainRow = {
  id: string;
  accountId: string;
  serviceId: string;
  host: string;
  redirectTo?: string;
  state: State;
  message?: string;
  found: string[];
  createdAt: Timestamp;
  checkedAt?: Timestamp;
  nextCheckAt: Timestamp;
  activatedAt?: Timestamp;
};

const SHOWN = `id, account_id as "accountId", service_id as "serviceId", host, redirect_to as "redirectTo", state, reason as message,
  found, created_at as "createdAt", checked_at as "checkedAt", due_at as "nextCheckAt",
  case when state = 'active' then activated_at end as "activatedAt"`;

/** Returns how many domains of an account are not being removed. */
export async function countDomains(db: Db, accountId: string): Promise<number> {
  const text = "select count(*) as n from domains where account_id = $1 and deleting_at is null";
  return (await one<{ n: number }>(db, "domains_count", text, [accountId]))!.n;
}

/** Returns whether a service has domains that are not being removed. */
export async function hasDomains(db: Db, serviceId: string): Promise<boolean> {
  const text = "select from domains where service_id = $1 and deleting_at is null limit 1";
  return (await one(db, "domains_any", text, [serviceId])) !== undefined;
}

type NewDomain = Pick<DomainRow, "id" | "accountId" | "serviceId" | "host"> & { redirectTo?: string };

/** Inserts a domain, which is due at once. Returns undefined when the account has one of this host. */
export function insertDomain(db: Db, { id, accountId, serviceId, host, redirectTo }: NewDomain) {
  return one<DomainRow>(
    db,
    "domain_insert",
    `insert into domains (id, account_id, service_id, host, redirect_to) values ($1, $2, $3, $4, $5)
     on conflict (account_id, host) where deleting_at is null do nothing returning ${SHOWN}`,
    [id, accountId, serviceId, host, redirectTo ?? null],
  );
}

/** Lists the domains of a service, newest first. */
export function listDomains(db: Db, serviceId: string, before: string | undefined, limit: number) {
  return many<DomainRow>(
    db,
    "domains_list",
    `select ${SHOWN} from domains where service_id = $1 and deleting_at is null and ${isBelow("id", "$2")}
     order by id desc limit $3`,
    [serviceId, before, limit],
  );
}

export function findDomain(db: Db, serviceId: string, id: string) {
  const text = `select ${SHOWN} from domains where service_id = $1 and id = $2 and deleting_at is null`;
  return one<DomainRow>(db, "domain_find", text, [serviceId, id]);
}

/** Marks a domain as being removed. What a process is finding out about it meanwhile is not recorded. */
export function markDomain(db: Db, serviceId: string, id: string) {
  return one<DomainRow>(
    db,
    "domain_mark",
    `update domains set deleting_at = now(), due_at = now(), turn = turn + 1
     where service_id = $1 and id = $2 and deleting_at is null returning ${SHOWN}`,
    [serviceId, id],
  );
}

/** Makes a domain due now. What a process is finding out about it meanwhile is not recorded. */
export function hurryDomain(db: Db, serviceId: string, id: string) {
  return one<DomainRow>(
    db,
    "domain_hurry",
    `update domains set due_at = now(), checks = 0, turn = turn + 1
     where service_id = $1 and id = $2 and deleting_at is null returning ${SHOWN}`,
    [serviceId, id],
  );
}

/** A domain that this process may look up until its lease ends. Times in ms. */
export type TakenDomain = Omit<NewDomain, "redirectTo"> & {
  state: State;
  deleting: boolean;
  createdAt: number;
  provedAt: number | null;
  lostAt: number | null;
  contested: boolean;
  checks: number;
  turn: number;
};

const MS = (column: string) => `(extract(epoch from d.${column}) * 1000)::float8`;

/** Takes domains that are due; each is due again when the lease ends, unless it is recorded before. */
export function takeDomains(db: Db, { limit, leaseSeconds }: { limit: number; leaseSeconds: number }) {
  return many<TakenDomain>(
    db,
    "domains_take",
    `with due as (
       select id from domains where due_at <= now() order by due_at limit $1 for update skip locked)
     update domains d set due_at = now() + make_interval(secs => $2), turn = turn + 1
     from due where d.id = due.id
     returning d.id, d.account_id as "accountId", d.service_id as "serviceId", d.host, d.state,
       d.deleting_at is not null as deleting, ${MS("created_at")} as "createdAt", ${MS("proved_at")} as "provedAt",
       ${MS("lost_at")} as "lostAt", d.contested, d.checks, d.turn`,
    [limit, leaseSeconds],
  );
}

/** Gives the host to a domain. Throws the violation of `domains_proved` when another has it. */
export function claimHost(db: Db, { id, turn }: Pick<TakenDomain, "id" | "turn">) {
  return execute(
    db,
    "domain_claim",
    `update domains set proved_at = now(), lost_at = null, contested = false
     where id = $1 and turn = $2 and proved_at is null and deleting_at is null`,
    [id, turn],
  );
}

/** Has the domain that has a host looked up now, as another account has proved it. */
export function contestHost(db: Db, host: string, accountId: string) {
  return execute(
    db,
    "domain_contest",
    `update domains set contested = true, due_at = now(), turn = turn + 1
     where host = $1 and proved_at is not null and account_id <> $2 and not contested`,
    [host, accountId],
  );
}

/**
 * Has the other domains of a host looked up now: nobody has it any longer. What a process is finding out about them meanwhile
 * is not recorded.
 */
export function wakeClaims(db: Db, host: string, id: string) {
  return execute(
    db,
    "domain_wake_claims",
    `update domains set due_at = now(), checks = 0, turn = turn + 1
     where host = $1 and id <> $2 and deleting_at is null`,
    [host, id],
  );
}

/** Has the other domains of a service's hosts looked up once the transaction is committed, which removes the service. */
export function wakeClaimsOn(tx: Tx, serviceId: string) {
  return execute(
    tx,
    "domain_wake_claims_on",
    `update domains set due_at = now(), checks = 0, turn = turn + 1
     where host in (select host from domains where service_id = $1 and proved_at is not null)
       and service_id <> $1 and deleting_at is null`,
    [serviceId],
  );
}

/**
 * Locks a service, as applying its releases does: what it serves changes once at a time. Before the locks of its domains.
 */
export async function lockHosts(tx: Tx, serviceId: string): Promise<void> {
  // The runtime is told what to serve meanwhile.
  const text = `select set_config('idle_in_transaction_session_timeout', '60s', true)
    from services where id = $1 for no key update`;
  await execute(tx, "domains_lock", text, [serviceId]);
}

/** Returns whether a taken domain is still to be decided by who took it, and locks it. */
export async function lockTaken(tx: Tx, { id, turn }: Pick<TakenDomain, "id" | "turn">): Promise<boolean> {
  const text = "select from domains where id = $1 and turn = $2 for no key update";
  return (await one(tx, "domain_lock", text, [id, turn])) !== undefined;
}

/** Returns the hosts that a service is to serve. */
export function listHosts(db: Db, serviceId: string) {
  return many<ServedHost>(
    db,
    "domain_hosts",
    `select host, redirect_to as "redirectTo" from domains
     where service_id = $1 and proved_at is not null and deleting_at is null order by host`,
    [serviceId],
  );
}

export type Outcome = {
  state: State;
  reason?: string;
  found: string[];
  lostAt?: number;
  checks: number;
  dueInMs: number;
};

/** Records what a look-up found. Returns false when the domain was taken again meanwhile. */
export async function recordDomain(
  tx: Tx,
  { id, turn }: Pick<TakenDomain, "id" | "turn">,
  outcome: Outcome,
): Promise<boolean> {
  const { state, reason, found, lostAt, checks, dueInMs } = outcome;
  const recorded = await execute(
    tx,
    "domain_record",
    `update domains set state = $3, reason = $4, found = $5, lost_at = to_timestamp($6::float8 / 1000), checks = $7,
       due_at = now() + make_interval(secs => $8::float8 / 1000), checked_at = now(),
       activated_at = case when $3 = 'active' and state <> 'active' then now() else activated_at end,
       contested = contested and $6 is not null
     where id = $1 and turn = $2`,
    [id, turn, state, reason ?? null, found, lostAt ?? null, checks, dueInMs],
  );
  return recorded > 0;
}

/** Takes the host from a domain: it is free once the transaction is committed. */
export function releaseHost(tx: Tx, id: string) {
  return execute(
    tx,
    "domain_release",
    "update domains set proved_at = null, lost_at = null, contested = false where id = $1",
    [id],
  );
}

/** Counts the domains that have their host and no certificate, and says since when the first of them has the host. */
export async function readWithoutCertificate(db: Db): Promise<{ domains: number; oldestSeconds: number }> {
  const text = `select count(*) as "domains",
      coalesce(extract(epoch from now() - min(proved_at)), 0)::float8 as "oldestSeconds"
    from domains where proved_at is not null and state in ('issuing', 'failed') and deleting_at is null`;
  return (await one(db, "domains_without_certificate", text))!;
}

export function deleteDomain(tx: Tx, id: string) {
  return execute(tx, "domain_delete", "delete from domains where id = $1", [id]);
}

/** Returns the hosts that services are to serve, by service. */
export function listAllHosts(db: Db) {
  return many<{ serviceId: string; hosts: ServedHost[] }>(
    db,
    "domain_hosts_all",
    `select service_id as "serviceId", json_agg(json_strip_nulls(json_build_object(
       'host', host, 'redirectTo', redirect_to)) order by host) as hosts
     from domains where proved_at is not null and deleting_at is null group by service_id`,
  );
}

/** Makes the proved domains of services due. */
export function hurryServices(db: Db, serviceIds: string[]) {
  const text =
    "update domains set due_at = least(due_at, now()) where service_id = any($1) and proved_at is not null";
  return execute(db, "domains_hurry", text, [serviceIds]);
}
