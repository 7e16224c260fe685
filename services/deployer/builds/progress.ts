import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { setBuildStage, setCommit } from "../deployments/transitions-sql.ts";

/**
 * Returns callbacks that record a build's stage and commit, one write after the other so that the last stage
 * remains. A write that fails is only logged.
 */
export function recordProgress(pool: Pool, deploymentId: string, log: Logger) {
  let recorded = Promise.resolve();
  let newest = "";
  const record = (write: () => Promise<unknown>) => {
    recorded = recorded
      .then(async () => void (await write()))
      .catch((error) =>
        log.warn({ err: error, deploymentId }, "the progress of a build could not be recorded"),
      );
  };
  return {
    onStage(stage: string): void {
      newest = stage;
      // A stage that has ended before its write begins was too short to be shown.
      record(async () => stage === newest && setBuildStage(pool, deploymentId, stage));
    },
    onCommit: (commit: string) => record(() => setCommit(pool, deploymentId, commit)),
  };
}
