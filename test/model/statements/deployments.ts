import type { Query, Row } from "../world/database.ts";
import type { Without } from "./fences.ts";
import { isActive, orNull, type Statements } from "./rows.ts";

/** Inserts a deployment as its service's next version; throws as the unique constraints do. */
export function insertDeployment(q: Query, row: Row, without: Without): Row[] {
  const [taken] = q.update(
    "services",
    (s) => s.id === row.service_id,
    (s) => ({ next_version: s.next_version + 1 }),
  );
  if (!taken) return [];
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
    built_version: null,
    buildpacks: null,
    created_by: null,
  };
  const others = q.rows("deployments", (d) => d.service_id === row.service_id);
  if (
    others.some((d) => d.version === taken.next_version - 1 || isActive(d)) &&
    !without("supersedes nothing")
  )
    throw new Error("duplicate key value violates unique constraint");
  const { id, version, status, errors, warnings } = q.put("deployments", {
    ...blank,
    ...row,
    version: taken.next_version - 1,
  });
  return [{ id, version, status, errors, warnings }];
}

/** The statements of deployments/sql.ts. */
export function deployments(without: Without): Statements {
  return {
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
      config: Row,
      source: Row,
      image?: string,
      artifact?: string,
      build_id?: string,
      archive_ref?: string,
      branch?: string,
      archive_digest?: string,
      built_version?: number,
      warnings = "[]",
      created_by?: Row,
    ) {
      const given = { id, service_id, status: "queued", config, source };
      const run = {
        image: orNull(image),
        artifact: orNull(artifact),
        build_id: orNull(build_id),
        archive_ref: orNull(archive_ref),
        branch: orNull(branch),
        archive_digest: orNull(archive_digest),
        built_version: orNull(built_version),
        warnings: JSON.parse(warnings),
        created_by: orNull(created_by),
      };
      return insertDeployment(q, { ...given, ...run }, without);
    },
  };
}
