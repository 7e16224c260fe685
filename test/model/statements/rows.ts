import type { Query, Row, Statement } from "../world/database.ts";

export type Statements = Readonly<Record<string, Statement>>;

const ACTIVE = ["queued", "building", "built"];

export const isActive = (row: Row) => ACTIVE.includes(row.status);

export const orNull = <T>(value: T | undefined | null): T | null => value ?? null;

/** least() of PostgreSQL, which ignores nulls. */
export const least = (one: number | null, other: number | null) =>
  one === null ? other : other === null ? one : Math.min(one, other);

export const digestOf = (artifact: string | null) => artifact?.match(/@(sha256:[0-9a-f]{64})$/)?.[1];

/** Returns whether the owner holds the service's lease. */
export const holds = (q: Query, owner: number, serviceId: string) =>
  q.get("work", serviceId)?.lease_owner === owner;

export const accountOf = (q: Query, serviceId: string) => orNull(q.get("services", serviceId)?.account_id);

/** Returns what the statements that move deployments return. */
export const toMoved = (q: Query, rows: Row[]) =>
  rows.map((row) => ({
    serviceId: row.service_id,
    version: row.version,
    accountId: accountOf(q, row.service_id),
  }));
