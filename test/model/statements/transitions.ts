import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { accountOf, digestOf, holds, isActive, orNull, type Statements, toMoved } from "./rows.ts";

const newest = (q: Query, serviceId: string) =>
  Math.max(...q.rows("deployments", (d) => d.service_id === serviceId).map((d) => d.version));

/** The statements of deployments/transitions-sql.ts. */
export function transitions(without: Without): Statements {
  return {
    deployment_lock_admission(q) {
      q.lockAdvisory("admission");
      return [{}];
    },
    deployment_admit_builds(q, slots: number, shares: string) {
      const { default: share } = JSON.parse(shares) as { default: number };
      const underWay = q.rows("deployments", (d) => d.status === "building").length;
      const waiting = (d: Row) =>
        d.status === "queued" && d.build_id !== null && q.get("services", d.service_id)?.deleting_at === null;
      // There is one account. What another transaction has locked is left out.
      let free = Math.max(0, slots - underWay);
      const admitted = q
        .rows("deployments", waiting)
        .sort((one, other) => one.created_at - other.created_at || (one.id < other.id ? -1 : 1))
        .slice(0, Math.max(0, share - underWay))
        .filter(({ id }) => {
          if (free === 0 || !q.tryLock("deployments", id) || !waiting(q.session.newest("deployments", id)!))
            return false;
          free--;
          return true;
        })
        .map((d) =>
          q.put("deployments", {
            ...d,
            status: "building",
            build_stage: "Waiting for builder",
            leftover: true,
            build_started_at: q.clock,
          }),
        );
      return toMoved(q, admitted).map((moved, at) => ({ ...moved, deploymentId: admitted[at]!.id }));
    },
    deployment_is_building(q, owner: number, id: string) {
      return q
        .rows(
          "deployments",
          (d) =>
            d.id === id &&
            d.status === "building" &&
            (holds(q, owner, d.service_id) || without("builds without the lease")),
        )
        .map((d) => ({ id: d.id }));
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
    deployment_finish_build(
      q,
      owner: number,
      id: string,
      artifact: string,
      image?: string,
      commit?: string,
      buildpacks?: string,
    ) {
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
          buildpacks: buildpacks === undefined ? null : JSON.parse(buildpacks),
        }),
      );
      // The trigger image_built.
      const digest = digestOf(artifact);
      for (const d of done)
        if (digest !== undefined && !q.get("built_images", digest)) {
          const account_id = accountOf(q, d.service_id);
          q.put("built_images", { id: digest, account_id, digest, service_id: d.service_id });
        }
      return toMoved(q, done);
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
      return toMoved(q, failed);
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
        (d) => ({
          status: "applied",
          applied_at: q.now,
          leftover: false,
          apply_started_at: d.apply_started_at ?? q.now,
        }),
      );
      return toMoved(q, applied);
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
  };
}
