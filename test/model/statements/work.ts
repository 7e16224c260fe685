import { LEASE_SECONDS } from "../../../services/deployer/due/sql.ts";
import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { least, type Statements } from "./rows.ts";

/** Returns the time in `wakeInMs`; null when there is none. */
const later = (q: Query, wakeInMs: number | undefined) => (wakeInMs === undefined ? null : q.now + wakeInMs);

/** The statements of queue/sql.ts: leases, and when services are due. */
export function work(without: Without): Statements {
  return {
    work_enqueue(q, ids: string[]) {
      q.update(
        "work",
        (w) => ids.includes(w.id),
        () => ({ next_at: q.now }),
      );
      q.notify();
      return 1;
    },
    work_notify(q) {
      q.notify();
      return 1;
    },
    work_claim(q, owner: number, limit: number, inProgress: string[]) {
      const free = (w: Row) =>
        w.lease_owner === null ||
        without("claims what is leased") ||
        (!without("keeps the dead") && (w.lease_until < q.now || !q.lives(w.lease_owner)));
      const due = (w: Row) => w.next_at !== null && w.next_at <= q.now;
      const wanted = (w: Row) =>
        (w.lease_owner === owner && (due(w) || !inProgress.includes(w.id))) ||
        (!inProgress.includes(w.id) && free(w) && (due(w) || w.lease_owner !== null));
      const isDeployed = (w: Row) =>
        q.rows("deployments", (d) => d.service_id === w.id && ["queued", "built"].includes(d.status)).length;
      return q
        .rows("work", wanted)
        .sort((one, other) => (one.next_at ?? Infinity) - (other.next_at ?? Infinity))
        .sort((one, other) => Math.sign(isDeployed(other)) - Math.sign(isDeployed(one)))
        .filter((w) => q.tryLock("work", w.id))
        .slice(0, limit)
        .flatMap((w) =>
          q.update(
            "work",
            (row) => row.id === w.id && wanted(row),
            () => ({ next_at: null, lease_owner: owner, lease_until: q.now + LEASE_SECONDS * 1000 }),
          ),
        )
        .map((w) => ({ serviceId: w.id }));
    },
    work_resume(q, owner: number, id: string) {
      return q.update(
        "work",
        (w) => w.id === id && w.lease_owner === owner,
        () => ({ next_at: null, lease_until: q.now + LEASE_SECONDS * 1000 }),
      ).length;
    },
    work_release(q, owner: number, id: string, wakeInMs: number | undefined) {
      return q.update(
        "work",
        (w) => w.id === id && w.lease_owner === owner,
        (w) => ({
          lease_owner: null,
          lease_until: null,
          next_at: least(without("forgets wakes") ? null : w.next_at, later(q, wakeInMs)),
        }),
      ).length;
    },
    work_later(q, owner: number, id: string, wakeInMs: number | undefined) {
      return q.update(
        "work",
        (w) => w.id === id && w.lease_owner === owner,
        (w) => ({ next_at: least(w.next_at, later(q, wakeInMs)) }),
      ).length;
    },
    work_renew(q, owner: number, ids: string[]) {
      return q
        .update(
          "work",
          (w) => w.lease_owner === owner && ids.includes(w.id),
          () => ({ lease_until: q.now + LEASE_SECONDS * 1000 }),
        )
        .map((w) => ({ serviceId: w.id }));
    },
    work_release_all(q, owner: number) {
      return q.update(
        "work",
        (w) => w.lease_owner === owner,
        () => ({ lease_owner: null, lease_until: null, next_at: q.now }),
      ).length;
    },
    work_next(q) {
      const times = q.rows("work", (w) => w.next_at !== null).map((w) => w.next_at);
      return [{ ms: times.length > 0 ? Math.min(...times) - q.now : null }];
    },
  };
}
