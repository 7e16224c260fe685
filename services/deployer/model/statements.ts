import { LEASE_SECONDS } from "../reconcile/sql.ts";
import type { Query, Row, Statement } from "./database.ts";

// The deployer's statements once more, as functions under the same names, for the simulated database. Each says
// what its SQL says, in its order; statements.test.ts compares the two.

/** Fences that the model can do without, to show that it finds out. */
export const FENCES = {
  "applies any version": "markApplied does not ask for the newest version",
  "applies what has ended": "markApplied does not ask for a state that is not final",
  "applies without the lease": "lockWhileLeased does not ask who holds the lease",
  "builds without the lease": "beginBuild and finishBuild do not ask who holds the lease",
  "fails what has ended": "markFailed does not ask for a state that is not final",
  "supersedes nothing": "accept leaves older deployments as they are",
  "forgets wakes": "release does not keep an earlier time to look again",
  "forgets changes": "recordRelease and recordComparison clear every mark of changed variables",
  "keeps the dead": "leases of killed processes run their time, and are never free",
  "claims what is leased": "work_claim takes what is due, whoever holds its lease",
  "reuses revisions": "assignRevision gives every set of variables the same revision",
} as const;
export type Fence = keyof typeof FENCES;

const ACTIVE = ["queued", "building", "built"];
const isActive = (row: Row) => ACTIVE.includes(row.status);
const orNull = <T>(value: T | undefined | null): T | null => value ?? null;
/** least() of PostgreSQL takes no notice of nulls. */
const least = (one: number | null, other: number | null) =>
  one === null ? other : other === null ? one : Math.min(one, other);

const digestOf = (artifact: string | null) => artifact?.match(/@(sha256:[0-9a-f]{64})$/)?.[1];

/** The mirror without these fences. */
export function mirror(removed: ReadonlySet<Fence> = new Set()): Readonly<Record<string, Statement>> {
  const without = (fence: Fence) => removed.has(fence);
  const holds = (q: Query, owner: number, serviceId: string) =>
    q.get("work", serviceId)?.lease_owner === owner;
  const accountOf = (q: Query, serviceId: string) => orNull(q.get("services", serviceId)?.account_id);
  const moved = (q: Query, rows: Row[]) =>
    rows.map((row) => ({
      serviceId: row.service_id,
      version: row.version,
      accountId: accountOf(q, row.service_id),
    }));
  const ofService = (q: Query, b: Row, serviceId: string, artifact: string) =>
    b.account_id === accountOf(q, serviceId) && b.digest === digestOf(artifact);
  const newest = (q: Query, serviceId: string) =>
    Math.max(...q.rows("deployments", (d) => d.service_id === serviceId).map((d) => d.version));

  function release(q: Query, s: Row, d: Row): Row {
    return {
      serviceId: s.id,
      accountId: s.account_id,
      projectId: s.project_id,
      environmentId: s.environment_id,
      project: q.get("projects", s.project_id)!.name,
      environment: q.get("environments", s.environment_id)!.name,
      service: s.name,
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
    };
  }

  /** Variables count as compared, unless they changed since `dirtyAt` was read. */
  const compared = (s: Row, dirtyAt: string | null | undefined) => {
    const since = dirtyAt ? Date.parse(dirtyAt) : null;
    if (s.dirty_at !== since && !without("forgets changes")) return {};
    return { dirty_at: null, dirty_since: null };
  };

  function insertDeployment(q: Query, row: Row): Row[] {
    const blank = {
      image: null,
      artifact: null,
      build_id: null,
      archive_ref: null,
      archive_digest: null,
      branch: null,
      commit: null,
      build_stage: null,
      errors: [],
      warnings: [],
      created_at: q.now,
      build_started_at: null,
      built_at: null,
      apply_started_at: null,
      applied_at: null,
      healthy_at: null,
      finished_at: null,
      leftover: false,
      awaits: null,
      awaits_until: null,
    };
    const others = q.rows("deployments", (d) => d.service_id === row.service_id);
    if (others.some((d) => d.version === row.version || isActive(d)) && !without("supersedes nothing"))
      throw new Error("duplicate key value violates unique constraint");
    const { id, version, status, errors, warnings } = q.put("deployments", { ...blank, ...row });
    return [{ id, version, status, errors, warnings }];
  }

  function expiring(q: Query, depth: number, services: Row[]): Row[] {
    return services.flatMap((s) => {
      const versions = q
        .rows("deployments", (n) => n.service_id === s.id && n.healthy_at !== null)
        .map((n) => n.version)
        .sort((one, other) => other - one);
      const beyond: number | undefined = versions[depth];
      return q.update(
        "deployments",
        (d) =>
          d.service_id === s.id &&
          d.status === "applied" &&
          d.artifact !== null &&
          !d.leftover &&
          s.live_version !== null &&
          d.version < s.live_version &&
          d.version !== s.serving_version &&
          (d.healthy_at === null || (beyond !== undefined && d.version <= beyond)) &&
          (!d.artifact.startsWith("image:") ||
            q.rows("built_images", (b) => b.digest === digestOf(d.artifact)).length > 0),
        () => ({ leftover: true }),
      );
    });
  }
  const depthOf = (depths: string) => JSON.parse(depths).free as number;

  /** `wakeInMs` from now, as PostgreSQL adds it up. */
  const later = (q: Query, wakeInMs: number | undefined) =>
    wakeInMs === undefined ? null : q.now + wakeInMs;

  return {
    // sql-work.ts
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
    work_claim(q, owner: number, limit: number, inHand: string[]) {
      const free = (w: Row) =>
        w.lease_owner === null ||
        without("claims what is leased") ||
        (!without("keeps the dead") && (w.lease_until < q.now || !q.lives(w.lease_owner)));
      const due = (w: Row) => w.next_at !== null && w.next_at <= q.now;
      const wanted = (w: Row) =>
        (w.lease_owner === owner && (due(w) || !inHand.includes(w.id))) ||
        (!inHand.includes(w.id) && free(w) && (due(w) || w.lease_owner !== null));
      return q
        .rows("work", wanted)
        .sort((one, other) => (one.next_at ?? Infinity) - (other.next_at ?? Infinity))
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
    work_compare(
      q,
      ids: string[],
      versions: number[],
      revisions: number[],
      states: string[],
      serving: (number | null)[],
      usedAt: (string | null)[],
      drifted: boolean[],
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
      return ids.filter((id) => !q.get("services", id)).map((id) => ({ id }));
    },

    // sql-releases.ts
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
          tier: null,
          addonState: s.addon_state,
          dirtyAt: s.dirty_at,
          dirtySince: s.dirty_since,
          recorded: {
            state: s.runtime_state,
            reason: s.runtime_reason,
            message: s.runtime_message,
            serving: s.serving_version,
            url: s.url,
            usageAt: s.usage_at,
          },
          size: orNull(s.config.size),
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
                waitsUntil: null,
              }
            : null,
          live: live
            ? {
                version: live.version,
                revision: s.applied_revision,
                healthy: live.healthy_at !== null,
                rolls: s.rolls,
                scale: { replicas: live.config.replicas ?? 1, size: orNull(live.config.size) },
              }
            : null,
          leftovers: own
            .filter((d) => d.leftover && !isActive(d))
            .map((d) => ({ deploymentId: d.id, buildId: d.build_id, artifact: d.artifact })),
        },
      ];
    },
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
    release_note(q, id: string, version: number, revision: number, dirtyAt: string | null, marks: Buffer) {
      return q.update(
        "services",
        (s) => s.id === id,
        (s) => ({
          runtime_state:
            s.live_version === version && s.applied_revision === revision ? s.runtime_state : "starting",
          live_version: version,
          applied_revision: revision,
          pending_variables: false,
          applied_variables: marks,
          ...compared(s, dirtyAt),
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
          });
          return {
            accountId: before.account_id,
            state: before.runtime_state,
            reason: before.runtime_reason,
          };
        });
    },
    status_broken(q, id: string, message: string) {
      return q.update(
        "services",
        (s) => s.id === id,
        () => ({
          runtime_state: "crashed",
          runtime_reason: null,
          runtime_message: message,
          serving_version: null,
        }),
      ).length;
    },

    // sql-moves.ts
    deployment_begin_build(q, owner: number, id: string) {
      return q
        .lock("deployments", (d) => d.id === id)
        .filter(
          (d) =>
            ["queued", "building"].includes(d.status) &&
            d.build_id !== null &&
            (holds(q, owner, d.service_id) || without("builds without the lease")),
        )
        .map((before) => {
          const d = q.put("deployments", {
            ...before,
            status: "building",
            build_stage: "Waiting for builder",
            leftover: true,
            build_started_at: before.build_started_at ?? q.now,
          });
          const resumed = before.status === "building";
          return { ...moved(q, [d])[0], resumed, buildStartedMs: d.build_started_at };
        });
    },
    deployment_build_stage(q, id: string, stage: string) {
      return q.update(
        "deployments",
        (d) => d.id === id && d.status === "building",
        () => ({ build_stage: stage }),
      ).length;
    },
    deployment_commit(q, id: string, commit: string) {
      return q.update(
        "deployments",
        (d) =>
          d.id === id &&
          (d.status === "building" || (["failed", "superseded"].includes(d.status) && d.commit === null)),
        () => ({ commit }),
      ).length;
    },
    deployment_finish_build(q, owner: number, id: string, artifact: string, image?: string, commit?: string) {
      const done = q.update(
        "deployments",
        (d) =>
          d.id === id &&
          d.status === "building" &&
          (holds(q, owner, d.service_id) || without("builds without the lease")),
        (d) => ({
          status: "built",
          built_at: q.now,
          build_stage: null,
          artifact,
          image: orNull(image),
          commit: commit ?? d.commit,
        }),
      );
      // The trigger image_built.
      const digest = digestOf(artifact);
      for (const d of done)
        if (digest !== undefined && !q.get("built_images", digest)) {
          const account_id = accountOf(q, d.service_id);
          q.put("built_images", { id: digest, account_id, digest, service_id: d.service_id });
        }
      return moved(q, done);
    },
    deployment_fail(q, id: string, error: string) {
      const failed = q.update(
        "deployments",
        (d) => d.id === id && (isActive(d) || without("fails what has ended")),
        (d) => ({
          status: "failed",
          finished_at: q.now,
          build_stage: null,
          errors: [...d.errors, ...JSON.parse(error)],
        }),
      );
      return moved(q, failed);
    },
    deployment_begin_apply(q, id: string) {
      return q.update(
        "deployments",
        (d) => d.id === id && ["queued", "built"].includes(d.status),
        (d) => ({ apply_started_at: d.apply_started_at ?? q.now }),
      ).length;
    },
    deployment_applied(q, id: string) {
      const applied = q.update(
        "deployments",
        (d) =>
          d.id === id &&
          (["queued", "built"].includes(d.status) || without("applies what has ended")) &&
          (d.version === newest(q, d.service_id) || without("applies any version")),
        () => ({ status: "applied", applied_at: q.now, leftover: false }),
      );
      return moved(q, applied);
    },
    deployment_healthy(q, serviceId: string, version: number, at: string) {
      return q.update(
        "deployments",
        (d) =>
          d.service_id === serviceId &&
          d.version === version &&
          d.status === "applied" &&
          d.healthy_at === null,
        () => ({ healthy_at: Date.parse(at) }),
      ).length;
    },
    deployment_warnings(q, id: string, stage: string, warnings: string) {
      return q.update(
        "deployments",
        (d) => d.id === id && !["failed", "superseded"].includes(d.status),
        (d) => ({
          warnings: [...JSON.parse(warnings), ...d.warnings.filter((one: Row) => one.stage !== stage)],
        }),
      ).length;
    },
    deployment_add_warning(q, serviceId: string, version: number, warning: string, code: string) {
      return q.update(
        "deployments",
        (d) =>
          d.service_id === serviceId &&
          d.version === version &&
          !d.warnings.some((one: Row) => one.code === code),
        (d) => ({ warnings: [...d.warnings, ...JSON.parse(warning)] }),
      ).length;
    },
    deployment_leftover(q, id: string) {
      const before = q.get("deployments", id);
      q.update(
        "deployments",
        (d) => d.id === id && ["failed", "superseded"].includes(d.status),
        () => ({ leftover: true }),
      );
      return before ? [{ status: before.status }] : [];
    },
    deployment_discarded(q, id: string) {
      return q.update(
        "deployments",
        (d) => d.id === id && d.leftover,
        () => ({ leftover: false, artifact: null }),
      ).length;
    },

    // sql-deployments.ts
    version_take(q, id: string) {
      return q
        .update(
          "services",
          (s) => s.id === id,
          (s) => ({ next_version: s.next_version + 1 }),
        )
        .map((s) => ({ version: s.next_version - 1 }));
    },
    deployment_supersede(q, serviceId: string) {
      if (without("supersedes nothing")) return [];
      return q
        .update(
          "deployments",
          (d) => d.service_id === serviceId && isActive(d),
          () => ({ status: "superseded", finished_at: q.now, build_stage: null }),
        )
        .map(({ id, version }) => ({ id, version }));
    },
    deployment_insert(
      q,
      id: string,
      service_id: string,
      version: number,
      config: Row,
      source: Row,
      image?: string,
      artifact?: string,
      build_id?: string,
      archive_ref?: string,
      branch?: string,
      archive_digest?: string,
    ) {
      const given = { id, service_id, version, status: "queued", config, source };
      const run = {
        image: orNull(image),
        artifact: orNull(artifact),
        build_id: orNull(build_id),
        archive_ref: orNull(archive_ref),
        branch: orNull(branch),
        archive_digest: orNull(archive_digest),
      };
      return insertDeployment(q, { ...given, ...run });
    },

    // sql-history.ts
    history_version(q, serviceId: string, version: number) {
      const s = q.get("services", serviceId);
      const own = q.rows("deployments", (d) => d.service_id === serviceId);
      return own
        .filter((d) => s && d.version === version)
        .map((d) => ({
          deploymentId: d.id,
          version,
          config: d.config,
          image: d.image,
          archiveRef: d.archive_ref,
          artifact: d.artifact,
          wasLive: d.healthy_at !== null,
          current: s!.live_version === null ? null : d.version === s!.live_version,
          expired: d.leftover,
          newer: own.filter((n) => n.healthy_at !== null && n.version > version).length,
        }));
    },
    deployment_restore(q, id: string, version: number, from: string) {
      const o = q.get("deployments", from);
      if (!o) return [];
      const { service_id, config, source, image, artifact, archive_ref, branch, commit } = o;
      const same = { service_id, config, source, image, artifact, archive_ref, branch, commit };
      return insertDeployment(q, { id, version, status: "queued", ...same });
    },
    history_expire(q, depths: string, id: string) {
      const services = q.rows("services", (s) => s.id === id && s.deleting_at === null);
      return expiring(q, depthOf(depths), services).map((d) => ({ serviceId: d.service_id }));
    },
    history_expire_all(q, depths: string) {
      const services = q
        .rows("services", (s) => s.deleting_at === null && s.live_version !== null)
        .filter((s) => q.tryLock("services", s.id))
        .flatMap((s) => q.lock("services", (one) => one.id === s.id));
      return expiring(q, depthOf(depths), services).map((d) => ({ serviceId: d.service_id }));
    },

    // sql-images.ts
    image_hold(q, accountId: string, digest: string) {
      return q.lock("built_images", (b) => b.account_id === accountId && b.digest === digest).map(() => ({}));
    },
    image_lock(q, serviceId: string, artifact: string) {
      return q
        .lock("built_images", (b) => ofService(q, b, serviceId, artifact))
        .map((b) => ({ serviceId: b.service_id }));
    },
    artifact_in_use(q, serviceId: string, artifact: string, but: string | undefined) {
      const digest = digestOf(artifact);
      const same = (d: Row) =>
        (d.artifact === artifact && d.service_id === serviceId) ||
        (digest !== undefined && digestOf(d.artifact) === digest);
      const wanted = (d: Row) =>
        accountOf(q, serviceId) !== null &&
        accountOf(q, d.service_id) === accountOf(q, serviceId) &&
        same(d) &&
        !["failed", "superseded"].includes(d.status) &&
        (but === undefined ? d.service_id !== serviceId : d.id !== but);
      return q
        .rows("deployments", wanted)
        .slice(0, 1)
        .map(() => ({}));
    },
    image_forget(q, serviceId: string, artifact: string) {
      return q.remove("built_images", (b) => ofService(q, b, serviceId, artifact)).length;
    },

    // sql-services.ts, sql-dirty.ts, sql-deletion.ts
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
    service_rescale(q, id: string, scale: { replicas?: number; size: string }) {
      const live = q.get("services", id)?.live_version;
      return q.update(
        "deployments",
        (d) =>
          d.service_id === id &&
          (d.version === live || isActive(d)) &&
          (d.config.replicas !== scale.replicas || d.config.size !== scale.size),
        (d) => ({ config: { ...d.config, ...scale } }),
      ).length;
    },
    service_roll(q, id: string) {
      return q.update(
        "services",
        (s) => s.id === id && s.live_version !== null,
        (s) => ({ rolls: s.rolls + 1 }),
      ).length;
    },
    service_dirty_service(q, id: string) {
      const dirty = q.update(
        "services",
        (s) =>
          s.id === id && ["web", "worker"].includes(s.type) && s.deleting_at === null && s.next_version > 1,
        (s) => ({ dirty_at: q.clock, dirty_since: s.dirty_since ?? q.clock }),
      );
      const ids = dirty.map((s) => s.id);
      return q.update(
        "work",
        (w) => ids.includes(w.id),
        (w) => ({ next_at: least(w.next_at, q.now + 2_000) }),
      ).length;
    },
    service_mark_id(q, id: string) {
      const marked = q.update(
        "services",
        (s) => s.id === id && s.deleting_at === null,
        () => ({ deleting_at: q.now }),
      );
      const ids = marked.map((s) => s.id);
      q.update(
        "work",
        (w) => ids.includes(w.id),
        () => ({ next_at: q.now }),
      );
      return marked.map((s) => ({
        id: s.id,
        name: s.name,
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
        .map((d) => ({ buildId: d.build_id, artifact: d.artifact }));
    },
    service_remove(q, id: string) {
      const removed = q.remove("services", (s) => s.id === id && s.deleting_at !== null);
      q.remove("deployments", (d) => d.service_id === id);
      if (removed.length > 0) q.remove("work", (w) => w.id === id);
      return removed.map((s) => ({ projectId: s.project_id }));
    },
    project_lock(q, id: string) {
      return q.lock("projects", (p) => p.id === id).map((p) => ({ id: p.id }));
    },
    environment_prune(q, projectId: string) {
      return q.remove(
        "environments",
        (e) =>
          e.project_id === projectId &&
          e.deleting_at !== null &&
          q.rows("services", (s) => s.environment_id === e.id).length === 0,
      ).length;
    },
    project_prune(q, id: string) {
      return q.remove(
        "projects",
        (p) =>
          p.id === id &&
          p.deleting_at !== null &&
          q.rows("environments", (e) => e.project_id === p.id).length === 0,
      ).length;
    },
    environments_gone(q, ids: string[]) {
      return ids.filter((id) => !q.get("environments", id)).map((id) => ({ id }));
    },
  };
}

/** What touches nothing that is modelled: accounts, logs, usage and addons. */
export const BESIDES: Readonly<Record<string, Statement>> = {
  account_provisioned: () => [{ id: "acc" }],
  account_tier: () => [],
  log_drop: () => 0,
  log_append: () => 1,
  usage_close: () => [],
  usage_seen: () => 0,
  usage_heartbeat: () => [],
  addon_compare: () => 0,
  outbox_insert(q, _id: string, subject: string, payload: Uint8Array) {
    const text = Buffer.from(payload.buffer, payload.byteOffset, payload.length).toString("latin1");
    q.tell({ kind: subject.split(".")[3]!, deploymentId: /dep_[0-9a-z]{26}/.exec(text)?.[0] });
    return 1;
  },
};
