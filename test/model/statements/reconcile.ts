import { isActive, orNull, type Statements } from "./rows.ts";

/** The statements of reconcile/desired-sql.ts and resync-sql.ts. */
export function reconcile(): Statements {
  return {
    desired(q, id: string) {
      const s = q.get("services", id);
      if (!s) return [];
      const own = q.rows("deployments", (d) => d.service_id === id);
      const active = own.find(isActive);
      const live = s.live_version !== null && own.find((d) => d.version === s.live_version);
      return [
        {
          now: q.now,
          type: s.type,
          environmentId: s.environment_id,
          staged: s.staged,
          deleting: s.deleting_at !== null,
          suspended: s.suspended !== null,
          tier: null,
          addonState: s.addon_state,
          dirtyAt: s.dirty_at,
          dirtySince: s.dirty_since,
          recorded: {
            state: s.runtime_state,
            reason: s.runtime_reason,
            message: s.runtime_message,
            serving: s.serving_version,
            available: s.available,
            url: s.url,
            usageAt: s.usage_at,
          },
          newest: { version: s.next_version - 1, revision: s.variables_revision },
          keptVersion: s.kept_version,
          size: orNull(s.config.size),
          replicas: s.config.replicas ?? 1,
          storageGib: null,
          pooler: null,
          engine: s.addon_engine,
          rotating: s.addon_next_secret !== null,
          active: active
            ? {
                id: active.id,
                version: active.version,
                status: active.status,
                fromSource: active.build_id !== null,
                createdAt: active.created_at,
                buildStartedAt: active.build_started_at,
                applyStartedAt: active.apply_started_at,
                releaseCommand: "none",
                releaseStartedAt: null,
                waitsUntil: null,
              }
            : null,
          live: live
            ? {
                version: live.version,
                revision: s.applied_revision,
                healthy: live.healthy_at !== null,
                rolls: s.rolls,
                scale: {
                  replicas: live.config.replicas ?? 1,
                  size: orNull(live.config.size),
                  autoscaling: orNull(live.config.autoscaling),
                },
              }
            : null,
          commandsLeft: [],
          leftovers: own
            .filter((d) => d.leftover && !isActive(d))
            .map((d) => ({
              deploymentId: d.id,
              accountId: s.account_id,
              buildId: d.build_id,
              artifact: d.artifact,
            })),
        },
      ];
    },
    work_compare(
      q,
      ids: string[],
      versions: number[],
      revisions: number[],
      states: string[],
      serving: (number | null)[],
      usedAt: (string | null)[],
      drifted: boolean[],
      unread: string[],
    ) {
      return q.update(
        "work",
        (w) => {
          const s = q.get("services", w.id)!;
          const at = ids.indexOf(w.id);
          const used = at < 0 || usedAt[at] === null ? null : Date.parse(usedAt[at]!);
          const differs =
            s.live_version !== orNull(versions[at]) ||
            s.applied_revision !== orNull(revisions[at]) ||
            s.runtime_state !== orNull(states[at]) ||
            s.serving_version !== orNull(serving[at]) ||
            (s.usage_at !== null && used !== null && s.usage_at !== used) ||
            drifted[at] === true;
          return (
            (w.next_at === null || w.next_at > q.now + 10_000) &&
            w.lease_owner === null &&
            ["web", "worker"].includes(s.type) &&
            s.deleting_at === null &&
            !unread.includes(s.environment_id) &&
            differs &&
            (s.live_version !== null || at >= 0)
          );
        },
        () => ({ next_at: q.now }),
      ).length;
    },
    work_unsettled(q) {
      const unsettled = (id: string) => {
        const s = q.get("services", id)!;
        return (
          s.deleting_at !== null ||
          ["provisioning", "failed"].includes(s.addon_state) ||
          (s.dirty_at !== null && s.live_version !== null) ||
          q.rows("deployments", (d) => d.service_id === id && isActive(d)).length > 0
        );
      };
      return q.update(
        "work",
        (w) => w.next_at === null && w.lease_owner === null && unsettled(w.id),
        () => ({ next_at: q.now }),
      ).length;
    },
    work_strays(q, ids: string[]) {
      return q.rows("removed", ({ id }) => ids.includes(id)).map(({ id }) => ({ id }));
    },
  };
}
