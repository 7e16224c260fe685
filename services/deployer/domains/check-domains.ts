import { isDeepStrictEqual } from "node:util";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { DomainActivatedSchema, DomainFailedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { createPastSlow } from "../../kit/concurrency/past-slow.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { attempt, isDuplicate, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { HostStatus, Runtime, ServedHost } from "../runtime/port.ts";
import { CHECK_DOMAINS, COMPARE_DOMAINS } from "../tasks.ts";
import * as decisions from "./decide.ts";
import type { LookUp, Seen } from "./look-up.ts";
import * as sql from "./sql.ts";

/** How many domains are looked up at once, besides those whose DNS servers are slow. */
const AT_ONCE = 10;
const MOST_AT_ONCE = 100;
/** How long no other process takes a domain that one took. */
const LEASE_SECONDS = 60;

export type DomainDeps = {
  pool: Pool;
  runtime: Pick<Runtime, "setHosts" | "list">;
  lookUp: LookUp;
  log: Logger;
};

/**
 * Looks up the domains that are due, and has their services serve those that are proved (docs/domains.md#states). What a
 * process leaves undone is due again when its lease ends. A host belongs to a domain before a service is told to serve
 * it, and until the service was told not to.
 */
export function startDomains({ pool, runtime, lookUp, log }: DomainDeps) {
  const stopping = new AbortController();

  async function check(domain: sql.TakenDomain): Promise<void> {
    if (domain.deleting) return remove(domain);
    const seen = await lookUp(domain, stopping.signal);
    // What a stop interrupts would look like servers that do not answer.
    if (stopping.signal.aborted) return;
    const decision = decisions.decide(knownOf(domain), seen, Date.now());
    switch (decision.do) {
      case "wait":
        return void (await transaction(pool, (tx) => record(tx, domain, seen, decision)));
      case "release":
        return release(domain, seen, decision.reason);
      case "claim": {
        if (await claim(domain)) return serve({ ...domain, provedAt: Date.now() }, seen, {});
        const state = domain.state === "failed" ? "failed" : "verifying";
        const shown = { state, reason: decisions.SERVED_ELSEWHERE } as const;
        // By itself: whoever has the host may be waking this one up.
        if (await transaction(pool, (tx) => record(tx, domain, seen, shown)))
          await sql.contestHost(pool, domain.host, domain.accountId);
        return;
      }
      case "serve":
        return serve(domain, seen, decision);
    }
  }

  /** Gives the host to a domain. Returns false when another has it. */
  async function claim(domain: sql.TakenDomain): Promise<boolean> {
    return transaction(pool, async (tx) => {
      let claimed = 0;
      const failure = await attempt(tx, async () => {
        claimed = await sql.claimHost(tx, domain);
      });
      if (failure && !isDuplicate(failure, "domains_proved")) throw failure;
      return claimed > 0;
    });
  }

  /** Has the service serve its hosts, this one among them, and records what became of it. */
  async function serve(
    domain: sql.TakenDomain,
    seen: Seen,
    { lostAt, reason }: { lostAt?: number; reason?: string },
  ): Promise<void> {
    await transaction(pool, async (tx) => {
      await sql.lockHosts(tx, domain.serviceId);
      if (!(await sql.lockTaken(tx, domain))) return;
      const served = (await setHosts(tx, domain.serviceId))?.find(({ host }) => host === domain.host);
      const shown = decisions.servedState(knownOf(domain), served, seen.address, Date.now());
      const reasons = [reason, shown.reason].filter(Boolean).join(" ");
      await record(tx, domain, seen, { state: shown.state, reason: reasons || undefined, lostAt });
    });
  }

  /** Takes the host from a domain that is no longer proved, once its service serves it no longer. */
  async function release(domain: sql.TakenDomain, seen: Seen, reason: string): Promise<void> {
    await transaction(pool, async (tx) => {
      await sql.lockHosts(tx, domain.serviceId);
      if (!(await sql.lockTaken(tx, domain))) return;
      await sql.releaseHost(tx, domain.id);
      await setHosts(tx, domain.serviceId);
      await record(tx, domain, seen, { state: "failed", reason });
      await sql.wakeClaims(tx, domain.host, domain.id);
    });
    log.info({ domain: domain.id, host: domain.host }, "a domain is no longer served");
  }

  async function remove(domain: sql.TakenDomain): Promise<void> {
    await transaction(pool, async (tx) => {
      await sql.lockHosts(tx, domain.serviceId);
      if (!(await sql.lockTaken(tx, domain))) return;
      await setHosts(tx, domain.serviceId);
      await sql.deleteDomain(tx, domain.id);
      await sql.wakeClaims(tx, domain.host, domain.id);
    });
  }

  /** Last in its transaction but for what is recorded of it: after a crash it is done once more, with what is known then. */
  async function setHosts(tx: Tx, serviceId: string): Promise<HostStatus[] | undefined> {
    return runtime.setHosts(serviceId, toHosts(await sql.listHosts(tx, serviceId)));
  }

  /** Takes as many domains as may be under way besides those that are. */
  async function takeSome(): Promise<Next> {
    const limit = checking.room();
    if (limit === 0) return undefined;
    const taken = await sql.takeDomains(pool, { limit, leaseSeconds: LEASE_SECONDS });
    for (const domain of taken)
      checking.begin(
        check(domain).catch((err) => {
          log.warn({ err, domain: domain.id }, "a domain could not be checked; trying again in a minute");
        }),
      );
    return taken.length === limit ? "more" : undefined;
  }

  /** Has the services checked that serve other hosts than they are to: what ran was lost, or removed by somebody. */
  async function compare(): Promise<void> {
    const wanted = new Map((await sql.listAllHosts(pool)).map(({ serviceId, hosts }) => [serviceId, hosts]));
    const differing = (await runtime.list()).flatMap(({ serviceId, hosts = [] }) => {
      const theirs = wanted.get(serviceId);
      return theirs && !isDeepStrictEqual(sorted(hosts), sorted(theirs)) ? serviceId : [];
    });
    if (differing.length > 0) await sql.hurryServices(pool, differing);
  }

  const checking = createPastSlow({ atOnce: AT_ONCE, most: MOST_AT_ONCE }, () => task.wake());
  const task = startTask(CHECK_DOMAINS, takeSome, { log });
  const comparing = startTask(COMPARE_DOMAINS, compare, { log });
  return {
    wake: task.wake,
    /** Takes no more. What is under way is recorded if it ends soon, and done again by another process otherwise. */
    stop: async () => {
      const stopped = Promise.all([task.stop(), comparing.stop()]).then(() => {});
      stopping.abort();
      await checking.settle(stopped);
    },
  };
}

/** Records what was found, and announces a domain that became active or failed. Returns false if it was taken again. */
async function record(
  tx: Tx,
  domain: sql.TakenDomain,
  { found }: Seen,
  shown: { state: decisions.State; reason?: string; lostAt?: number },
): Promise<boolean> {
  const { id: domainId, accountId, serviceId, host, createdAt } = domain;
  const { state, reason, lostAt } = shown;
  const changed = state !== domain.state;
  const checks = changed ? 0 : domain.checks + 1;
  const dueInMs = decisions.msUntilCheck({ state, createdAt, lostAt, checks }, Date.now(), Math.random());
  if (!(await sql.recordDomain(tx, domain, { state, reason, found, lostAt, checks, dueInMs }))) return false;
  const event = { accountId, serviceId, domainId, host, at: timestampNow() };
  if (changed && state === "active") await emit(tx, DomainActivatedSchema, accountId, event);
  if (changed && state === "failed")
    await emit(tx, DomainFailedSchema, accountId, { ...event, reason: reason ?? "" });
  return true;
}

function knownOf({ provedAt, lostAt, ...domain }: sql.TakenDomain): decisions.Known {
  return { ...domain, provedAt: provedAt ?? undefined, lostAt: lostAt ?? undefined };
}

function toHosts(rows: ServedHost[]): ServedHost[] {
  return rows.map(({ host, redirectTo }) => ({ host, ...(redirectTo && { redirectTo }) }));
}

function sorted(hosts: ServedHost[]): ServedHost[] {
  return hosts.toSorted((one, other) => (one.host < other.host ? -1 : 1));
}
