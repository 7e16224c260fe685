import { isDeepStrictEqual } from "node:util";
import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { isActive, least, orNull, type Statements } from "./rows.ts";

const scaleOf = ([live]: Row[]) =>
  live ? { replicas: orNull(live.config.replicas), size: orNull(live.config.size) } : null;

/** Marks services as `service_dirty_*` do. */
function markDirty(q: Query, isUnder: (s: Row) => boolean): number {
  const dirty = q.update(
    "services",
    (s) => isUnder(s) && ["web", "worker"].includes(s.type) && s.deleting_at === null,
    (s) => ({ dirty_at: q.clock, dirty_since: s.dirty_since ?? q.clock }),
  );
  const ids = dirty.map((s) => s.id);
  return q.update(
    "work",
    (w) => ids.includes(w.id),
    (w) => ({ next_at: least(w.next_at, q.now + 2_000) }),
  ).length;
}

/** Removes marked environments without services. */
function prune(q: Query, isMeant: (e: Row) => boolean): number {
  const removed = q.remove(
    "environments",
    (e) =>
      isMeant(e) &&
      e.deleting_at !== null &&
      q.rows("services", (s) => s.environment_id === e.id).length === 0,
  );
  for (const e of removed) q.put("removed", { id: e.id });
  return removed.length;
}

/** The statements of projects/sql.ts, services-sql.ts and deletion-sql.ts, and of releases/dirty-sql.ts. */
export function projects(without: Without): Statements {
  return {
    project_rename(q, accountId: string, id: string, name: string) {
      return q
        .lock("projects", (p) => p.id === id && p.account_id === accountId && p.deleting_at === null)
        .map((before) => {
          q.put("projects", { ...before, name });
          return { id, name, formerName: before.name };
        });
    },
    service_move_project(q, projectId: string) {
      const moves = (s: Row) => s.project_id === projectId && s.type === "web" && s.deleting_at === null;
      return q.update("services", moves, (s) => ({
        variables_revision: s.variables_revision + (without("moves in silence") ? 0 : 1),
      })).length;
    },
    service_lock(q, accountId: string, projectId: string, environmentId: string, name: string) {
      return q
        .lock(
          "services",
          (s) =>
            s.account_id === accountId &&
            s.project_id === projectId &&
            s.environment_id === environmentId &&
            s.name === name &&
            q.get("environments", s.environment_id)?.deleting_at === null,
        )
        .map((s) => ({
          id: s.id,
          accountId: s.account_id,
          environmentId: s.environment_id,
          name: s.name,
          type: s.type,
          source: s.source,
          config: s.config,
          staged: s.staged,
          deleting: s.deleting_at !== null,
          nextVersion: s.next_version,
          revision: s.variables_revision,
          dirtyAt: s.dirty_at === null ? null : new Date(s.dirty_at).toISOString(),
          liveScale: scaleOf(
            q.rows("deployments", (d) => d.service_id === s.id && d.version === s.live_version),
          ),
          toDeploy: {},
        }));
    },
    service_update(q, id: string, source: Row, config: Row) {
      return q.update(
        "services",
        (s) => s.id === id,
        () => ({ source, config }),
      ).length;
    },
    service_rescale(
      q,
      id: string,
      { autoscaling, ...scale }: { replicas?: number; size: string; autoscaling?: Row },
    ) {
      const live = q.get("services", id)?.live_version;
      const rescaled = ({ autoscaling: _, ...config }: Row) => ({
        ...{ ...config, ...scale },
        ...(autoscaling && { autoscaling }),
      });
      return q.update(
        "deployments",
        (d) =>
          d.service_id === id &&
          (d.version === live || isActive(d)) &&
          !isDeepStrictEqual(d.config, rescaled(d.config)),
        (d) => ({ config: rescaled(d.config) }),
      ).length;
    },
    service_roll(q, id: string) {
      return q.update(
        "services",
        (s) => s.id === id && s.live_version !== null,
        (s) => ({ rolls: s.rolls + 1 }),
      ).length;
    },
    service_dirty_service: (q, id: string) => markDirty(q, (s) => s.id === id),
    service_dirty_project: (q, id: string) => markDirty(q, (s) => s.project_id === id),
    service_mark_id(q, ids: string[]) {
      const marked = q.update(
        "services",
        (s) => ids.includes(s.id) && s.deleting_at === null,
        () => ({ deleting_at: q.now }),
      );
      const due = marked.map((s) => s.id);
      q.update(
        "work",
        (w) => due.includes(w.id),
        () => ({ next_at: q.now }),
      );
      return marked.map((s) => ({
        id: s.id,
        name: s.name,
        type: s.type,
        projectId: s.project_id,
        environmentId: s.environment_id,
        live: s.live_version !== null || s.addon_state === "ready",
      }));
    },
    deployments_lock(q, serviceId: string) {
      const held = q.lock("services", (s) => s.id === serviceId);
      return q
        .lock("deployments", (d) => held.length > 0 && d.service_id === serviceId)
        .map((d) => ({ id: d.id }));
    },
    build_outputs(q, serviceId: string) {
      const seen = new Set<string>();
      return q
        .rows("deployments", (d) => d.service_id === serviceId && (d.artifact !== null || d.leftover))
        .filter((d) => !seen.has(`${d.build_id} ${d.artifact}`) && seen.add(`${d.build_id} ${d.artifact}`))
        .map((d) => ({
          accountId: q.get("services", serviceId)!.account_id,
          buildId: d.build_id,
          artifact: d.artifact,
        }));
    },
    service_remove(q, id: string) {
      const removed = q.remove("services", (s) => s.id === id && s.deleting_at !== null);
      q.remove("deployments", (d) => d.service_id === id);
      if (removed.length > 0) q.remove("work", (w) => w.id === id);
      for (const s of removed) q.put("removed", { id: s.id });
      return removed.map((s) => ({ projectId: s.project_id, environmentId: s.environment_id }));
    },
    project_lock(q, ids: string[]) {
      return q.lock("projects", (p) => ids.includes(p.id)).map((p) => ({ id: p.id }));
    },
    environment_has_more(q, environmentId: string) {
      const services = q.rows("services", (s) => s.environment_id === environmentId);
      const newest = services.sort((a, b) => (a.id < b.id ? 1 : -1)).find((s) => q.tryLock("services", s.id));
      return newest ? [{ id: newest.id }] : [];
    },
    environment_prune: (q, projectIds: string[]) => prune(q, (e) => projectIds.includes(e.project_id)),
    environment_prune_one: (q, id: string) => prune(q, (e) => e.id === id),
    project_prune(q, ids: string[]) {
      return q.remove(
        "projects",
        (p) =>
          ids.includes(p.id) &&
          p.deleting_at !== null &&
          q.rows("environments", (e) => e.project_id === p.id).length === 0,
      ).length;
    },
    environments_gone(q, ids: string[]) {
      return q.rows("removed", ({ id }) => ids.includes(id)).map(({ id }) => ({ id }));
    },
  };
}
