// Statements on requests of devices. Each is decided once, and its tokens are issued once.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, one } from "../../../kit/postgres/db.ts";
import type { Grant } from "../../grants/sql.ts";

/** By how much a device waits longer each time that it asks for tokens too early (RFC 8628, section 3.5). */
const SLOW_DOWN_SECONDS = 5;
/** Timers and networks are not exact: a device that asks this much earlier is not too early. */
const TOLERANCE_SECONDS = 1;
/** How long an expired request is kept: its device receives expired_token rather than invalid_grant. */
const KEPT_MINUTES = 10;

export type NewDevice = {
  hash: Buffer;
  userCode: string;
  clientId: string;
  scope: string[];
  resource: string[];
  subject: string | undefined;
  ip: string;
  requestedAt: Date;
  expiresAt: Date;
  /** The seconds between two of its requests for tokens. */
  intervalSeconds: number;
};

export function insertDevice(db: Db, device: NewDevice) {
  const { hash, userCode, clientId, scope, resource, subject, ip, requestedAt, expiresAt, intervalSeconds } =
    device;
  const text = `insert into oauth_devices
    (hash, user_code, client_id, scope, resource, subject, ip, requested_at, expires_at, interval_seconds)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;
  return execute(db, "oauth_device_insert", text, [
    ...[hash, userCode, clientId, scope, resource],
    ...[subject, ip, requestedAt, expiresAt, intervalSeconds],
  ]);
}

export type FoundDevice = {
  hash: Buffer;
  clientId: string;
  scope: string[];
  resource: string[];
  subject: string | null;
  ip: string;
  requestedAt: Timestamp;
  expiresAt: Timestamp;
  /** Whether it waits for a decision. */
  pending: boolean;
};

/** Returns the request with this user code, under any of its MACs. */
export function findDevice(db: Db, userCodes: string[], now: Date) {
  return one<FoundDevice>(
    db,
    "oauth_device_find",
    `select hash, client_id as "clientId", scope, resource, subject, ip, requested_at as "requestedAt",
       expires_at as "expiresAt", decided_at is null and expires_at > $2 as pending
     from oauth_devices where user_code = any($1)`,
    [userCodes, now],
  );
}

/**
 * Records the decision on a request; without a grant it is denied. Returns false when it was decided or has expired. The
 * device has time to ask, however late the decision was.
 */
export async function decideDevice(
  db: Db,
  decision: { hash: Buffer; grantId: string | undefined },
  now: Date,
): Promise<boolean> {
  const text = `update oauth_devices set decided_at = $3, grant_id = $2,
      expires_at = greatest(expires_at, $3::timestamptz + interval '30 seconds')
    where hash = $1 and decided_at is null and expires_at > $3`;
  return (await execute(db, "oauth_device_decide", text, [decision.hash, decision.grantId, now])) === 1;
}

export type PolledDevice = {
  clientId: string;
  scope: string[];
  resource: string[];
  requestedAt: Timestamp;
  expiresAt: Timestamp;
  early: boolean;
  decided: boolean;
  consumedAt: Timestamp | null;
  /** The grant of a decision that allows. */
  grantId: string | null;
  userId: string | null;
  role: Grant["role"] | null;
};

/**
 * Records that a device asks for tokens, and returns its request; undefined for an unknown device code. While a device
 * asks too early, each time takes its interval 5 s further (RFC 8628, section 3.5).
 */
export function pollDevice(db: Db, hash: Buffer, now: Date) {
  const early = `coalesce(polled_at > $2::timestamptz - make_interval(secs => interval_seconds - ${TOLERANCE_SECONDS}), false)`;
  return one<PolledDevice>(
    db,
    "oauth_device_poll",
    `update oauth_devices d set polled_at = $2, polled_early = ${early},
       interval_seconds = interval_seconds + case when ${early} then ${SLOW_DOWN_SECONDS} else 0 end
     where hash = $1
     returning client_id as "clientId", scope, resource, requested_at as "requestedAt", expires_at as "expiresAt",
       polled_early as early, decided_at is not null as decided, consumed_at as "consumedAt", grant_id as "grantId",
       (select g.user_id from oauth_grants g where g.id = d.grant_id) as "userId",
       (select g.role from oauth_grants g where g.id = d.grant_id) as role`,
    [hash, now],
  );
}

/** Takes a device code for tokens. Returns false when it was taken before. */
export async function consumeDevice(db: Db, hash: Buffer, now: Date): Promise<boolean> {
  const text = "update oauth_devices set consumed_at = $2 where hash = $1 and consumed_at is null";
  return (await execute(db, "oauth_device_consume", text, [hash, now])) === 1;
}

export function findDeviceGrant(db: Db, hash: Buffer) {
  const text = `select grant_id as "grantId" from oauth_devices where hash = $1 and grant_id is not null`;
  return one<{ grantId: string }>(db, "oauth_device_grant", text, [hash]);
}

/** Deletes the request that led to a grant. */
export function deleteDeviceOf(db: Db, grantId: string) {
  return execute(db, "oauth_device_of_grant_delete", "delete from oauth_devices where grant_id = $1", [
    grantId,
  ]);
}

/** Deletes up to `limit` requests that expired ten minutes ago. Returns how many. */
export function deleteExpiredDevices(db: Db, now: Date, limit: number): Promise<number> {
  const text = `delete from oauth_devices where hash = any(array(select hash from oauth_devices
    where expires_at < $1::timestamptz - interval '${KEPT_MINUTES} minutes'
    order by expires_at limit $2 for update skip locked))`;
  return execute(db, "oauth_devices_sweep", text, [now, limit]);
}
