import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { Incident } from "./incident.ts";

const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`;

/** Returns the known health of a service, locked until the transaction ends. */
export async function lockIncident(db: Db, serviceId: string): Promise<Incident> {
  const row = await one<{ openedAt: number | null; unhealthyAt: number | null; closedAt: number | null }>(
    db,
    "incident_lock",
    `insert into incidents (service_id) values ($1)
     on conflict (service_id) do update set service_id = excluded.service_id
     returning ${ms("opened_at")} as "openedAt", ${ms("unhealthy_at")} as "unhealthyAt", ${ms("closed_at")} as "closedAt"`,
    [serviceId],
  );
  const { openedAt, unhealthyAt, closedAt } = row!;
  return {
    openedAt: openedAt ?? undefined,
    unhealthyAt: unhealthyAt ?? undefined,
    closedAt: closedAt ?? undefined,
  };
}

export function setIncident(db: Db, serviceId: string, { openedAt, unhealthyAt, closedAt }: Incident) {
  const [opened, unhealthy, closed] = [openedAt, unhealthyAt, closedAt].map((time) =>
    time === undefined ? null : new Date(time),
  );
  return execute(
    db,
    "incident_set",
    "update incidents set opened_at = $2, unhealthy_at = $3, closed_at = $4 where service_id = $1",
    [serviceId, opened, unhealthy, closed],
  );
}

/** Deletes the incident of a deleted service. */
export function deleteIncident(db: Db, serviceId: string): Promise<number> {
  return execute(db, "incident_delete", "delete from incidents where service_id = $1", [serviceId]);
}
