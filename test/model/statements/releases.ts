import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { holds, orNull, type Statements } from "./rows.ts";

function release(q: Query, s: Row, d: Row): Row {
  const [built] = q.rows("deployments", (b) => b.service_id === s.id && b.version === d.built_version);
  return {
    serviceId: s.id,
    accountId: s.account_id,
    projectId: s.project_id,
    environmentId: s.environment_id,
    project: q.get("projects", s.project_id)!.name,
    environment: q.get("environments", s.environment_id)!.name,
    service: s.name,
    objectName: orNull(s.object_name),
    type: s.type,
    autoApply: s.config.autoApply ?? true,
    deploymentId: d.id,
    version: d.version,
    status: d.status,
    config: d.config,
    source: d.source,
    artifact: d.artifact,
    buildId: d.build_id,
    archiveRef: d.archive_ref,
    archiveDigest: d.archive_digest,
    buildStartedMs: d.build_started_at,
    fingerprint: s.fingerprint,
    revision: s.variables_revision,
    appliedRevision: s.applied_revision,
    rolls: s.rolls,
    dirtyAt: s.dirty_at === null ? null : new Date(s.dirty_at).toISOString(),
    hasVariableWarnings: d.warnings.some((one: Row) => one.stage === "resolve"),
    tier: null,
    suspended: s.suspended !== null,
    byBuildpacks: (d.buildpacks ?? built?.buildpacks ?? null) !== null,
  };
}

/** The statements of releases/sql.ts. */
export function releases(without: Without): Statements {
  /** Variables count as compared, unless they changed since `dirtyAt` was read. */
  const compared = (s: Row, dirtyAt: string | null | undefined) => {
    const since = dirtyAt ? Date.parse(dirtyAt) : null;
    if (s.dirty_at !== since && !without("forgets changes")) return {};
    return { dirty_at: null, dirty_since: null };
  };

  return {
    release_get(q, id: string) {
      const d = q.get("deployments", id);
      const s = d && q.get("services", d.service_id);
      return s ? [release(q, s, d)] : [];
    },
    release_live(q, id: string) {
      const s = q.get("services", id);
      if (!s) return [];
      return q
        .rows("deployments", (d) => d.service_id === id && d.version === s.live_version)
        .map((d) => release(q, s, d));
    },
    service_lock_held(q, owner: number, id: string) {
      const held = without("applies without the lease") || holds(q, owner, id);
      return q
        .lock("services", (s) => s.id === id && held && s.deleting_at === null)
        .map((s) => ({ liveVersion: s.live_version, revision: s.variables_revision }));
    },
    revision_for(q, owner: number, id: string, fingerprint: string) {
      const same = (s: Row) => s.fingerprint === fingerprint || without("reuses revisions");
      return q
        .update(
          "services",
          (s) => s.id === id && holds(q, owner, id),
          (s) => ({ fingerprint, variables_revision: s.variables_revision + (same(s) ? 0 : 1) }),
        )
        .map((s) => ({ revision: s.variables_revision }));
    },
    release_note(q, id: string, version: number, revision: number, dirtyAt: string | null, digests: Buffer) {
      return q.update(
        "services",
        (s) => s.id === id,
        (s) => ({
          runtime_state:
            s.live_version === version && s.applied_revision === revision ? s.runtime_state : "starting",
          live_version: version,
          applied_revision: revision,
          pending_variables: false,
          applied_variables: digests,
          ...compared(s, dirtyAt),
        }),
      ).length;
    },
    release_keep(q, id: string, version: number, revision: number) {
      return q.update(
        "services",
        (s) => s.id === id,
        (s) => ({
          kept_version: s.next_version <= version ? version : s.kept_version,
          next_version: Math.max(s.next_version, version + 1),
          variables_revision: Math.max(s.variables_revision, revision),
          applied_revision:
            s.live_version === version ? Math.max(s.applied_revision ?? 0, revision) : s.applied_revision,
        }),
      ).length;
    },
    release_compared(q, id: string, pending: boolean, dirtyAt: string | null) {
      return q.update(
        "services",
        (s) => s.id === id,
        (s) => ({ pending_variables: pending, ...compared(s, dirtyAt) }),
      ).length;
    },
    status_record(
      q,
      owner: number,
      id: string,
      state: string,
      reason: string | undefined,
      message: string | undefined,
      serving: number | undefined,
      url: string | undefined,
      available: number | undefined,
    ) {
      const held = holds(q, owner, id);
      return q
        .lock("services", (s) => s.id === id && held)
        .map((before) => {
          q.put("services", {
            ...before,
            runtime_state: state,
            runtime_reason: orNull(reason),
            runtime_message: orNull(message),
            serving_version: orNull(serving),
            url: orNull(url),
            available: orNull(available),
            unhealthy: ["degraded", "crashed"].includes(state) || (before.unhealthy && state !== "running"),
          });
          return {
            accountId: before.account_id,
            type: before.type,
            state: before.runtime_state,
            reason: before.runtime_reason,
            unhealthy: before.unhealthy,
          };
        });
    },
    status_broken(q, id: string, message: string) {
      return q
        .update(
          "services",
          (s) => s.id === id && (s.runtime_state !== "crashed" || s.runtime_message !== message),
          () => ({
            runtime_state: "crashed",
            runtime_reason: null,
            runtime_message: message,
            serving_version: null,
            unhealthy: true,
          }),
        )
        .map((s) => ({ accountId: s.account_id }));
    },
    dangling_record(q, id: string, names: string[]) {
      return q
        .lock("services", (s) => s.id === id && String(s.dangling) !== String(names))
        .map((before) => {
          q.put("services", { ...before, dangling: names });
          const added = names.filter((name) => !before.dangling.includes(name));
          return { accountId: before.account_id, added: before.live_version === null ? [] : added };
        });
    },
  };
}
