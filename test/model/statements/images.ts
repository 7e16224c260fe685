import type { Query, Row } from "../world/database.ts";
import { accountOf, digestOf, type Statements } from "./rows.ts";

const ofService = (q: Query, b: Row, serviceId: string, artifact: string) =>
  b.account_id === accountOf(q, serviceId) && b.digest === digestOf(artifact);

/** The statements of images/sql.ts. */
export function images(): Statements {
  return {
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
  };
}
