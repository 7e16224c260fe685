import { type Db, many, one } from "../../../kit/postgres/db.ts";
import { DEPLOYMENT, type StoredDeployment, toMessage } from "../../deployments/sql.ts";

/**
 * Returns how a deployment and its build ended, null while they have not. A release that was replaced before it was
 * healthy counts as superseded, as it never becomes healthy.
 */
export function findOutcome(db: Db, deploymentId: string) {
  return one<{ outcome: string | null; buildOutcome: string | null }>(
    db,
    "deployment_outcome",
    `select case when d.healthy_at is not null then 'healthy'
         when d.status in ('failed', 'superseded') then d.status
         when d.status = 'applied' and s.live_version > d.version then 'superseded' end as outcome,
       case when d.release_finished_at is not null or (d.built_at is not null and d.release_command is null) then 'built'
         when d.status in ('failed', 'superseded') then d.status end as "buildOutcome"
     from deployments d join services s on s.id = d.service_id where d.id = $1`,
    [deploymentId],
  );
}

/** Returns the deployment as it was after each change later than `seq`. */
export async function listStates(db: Db, deploymentId: string, seq: number) {
  const found = await many<{ seq: number; moved: boolean } & StoredDeployment>(
    db,
    "deployment_states",
    `select s.seq, s.moved, ${DEPLOYMENT}
     from deployment_states s, jsonb_populate_record(null::deployments, s.row) d
     where s.deployment_id = $1 and s.seq > $2 order by s.seq`,
    [deploymentId, seq],
  );
  return found.map(({ seq, moved, ...row }) => ({ seq, moved, deployment: toMessage(row) }));
}
