import type { Database } from "../world/database.ts";

const SCOPE = { account_id: "acc", project_id: "prj", environment_id: "env" };

/**
 * Inserts services without deployments into an empty database: svc_0, svc_1 and so on. Changed variables reach what runs
 * by themselves if `autoApply`.
 */
export function insertServices({ committed }: Database, count: number, autoApply = true): void {
  committed.projects.set("prj", { id: "prj", account_id: "acc", name: "shop", deleting_at: null });
  committed.environments.set("env", { ...SCOPE, id: "env", name: "production", deleting_at: null });
  for (let n = 0; n < count; n++) {
    const id = `svc_${n}`;
    const config = { ...BLANK_SERVICE.config, autoApply };
    committed.services.set(id, { ...BLANK_SERVICE, ...SCOPE, id, name: `web${n}`, config });
    committed.work.set(id, { id, next_at: null, lease_owner: null, lease_until: null });
  }
}

const BLANK_SERVICE = {
  type: "web",
  source: {},
  config: { port: 8080, replicas: 1, size: "nano", env: {}, autoApply: true },
  staged: false,
  deleting_at: null,
  suspended: null,
  next_version: 1,
  kept_version: null,
  live_version: null,
  variables_revision: 0,
  fingerprint: null,
  applied_revision: null,
  pending_variables: false,
  dirty_at: null,
  dirty_since: null,
  runtime_state: null,
  runtime_reason: null,
  runtime_message: null,
  serving_version: null,
  available: null,
  url: null,
  addon_state: null,
  addon_next_secret: null,
  addon_engine: null,
  applied_variables: null,
  rolls: 0,
  unhealthy: false,
  dangling: [],
  usage_at: null,
};
