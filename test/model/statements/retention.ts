import type { Query, Row } from "../world/database.ts";
import { insertDeployment } from "./deployments.ts";
import type { Without } from "./fences.ts";
import { digestOf, orNull, type Statements } from "./rows.ts";

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

const depthOf = (depths: string) => JSON.parse(depths).default as number;

/** The statements of deployments/retention-sql.ts. */
export function retention(without: Without): Statements {
  return {
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
    deployment_restore(q, id: string, _serviceId: string, from: string, warnings: string, created_by?: Row) {
      const o = q.get("deployments", from);
      if (!o) return [];
      const { service_id, config, source, image, artifact, archive_ref, branch, commit } = o;
      const same = { service_id, config, source, image, artifact, archive_ref, branch, commit };
      const built_version = o.built_version ?? (o.build_id === null ? null : o.version);
      const own = {
        id,
        status: "queued",
        built_version,
        warnings: JSON.parse(warnings),
        created_by: orNull(created_by),
      };
      return insertDeployment(q, { ...same, ...own }, without);
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
  };
}
