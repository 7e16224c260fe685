import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { accountOf, digestOf, holds, isActive, orNull, type Statements, toMoved } from "./rows.ts";

const newest = (q: Query, serviceId: string) =>
  Math.max(...q.rows("deployments", (d) => d.service_id === serviceId).map((d) => d.version));

/** The statements of deployments/transitions-sql.ts. */
export function transitions(without: Without): Statements {
  return {
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
          return { ...toMoved(q, [d])[0], resumed, buildStartedMs: d.build_started_at };
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
        () => ({ status: "applied", applied_at: q.now, leftover: false }),
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
