// Statements on the audit log.
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { AuditRecorded } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Db, execute, many } from "../../kit/postgres/db.ts";

/** Stores a record that a service sent, unless it is already stored. */
export function insertAuditEvent(db: Db, record: AuditRecorded) {
  const { actor } = record;
  return execute(
    db,
    "audit_insert",
    `insert into audit_events (id, account_id, action, actor_kind, actor_id, actor_token_id, target, metadata,
       request_id, ip, at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (id) do nothing`,
    [
      record.id,
      record.accountId,
      record.action,
      actor?.kind ?? "",
      actor?.id ?? "",
      actor?.tokenId,
      record.target,
      record.metadata,
      record.requestId,
      record.ip,
      record.at ? timestampDate(record.at) : new Date(),
    ],
  );
}

type AuditRow = {
  id: string;
  action: string;
  actor: { kind: string; id: string; tokenId?: string };
  target: string;
  metadata: Record<string, string>;
  requestId: string;
  ip: string;
  at: Timestamp;
};

type AuditFilter = {
  accountId: string;
  before: string | undefined;
  action: string | undefined;
  actor: string | undefined;
  target: string | undefined;
  /** The lowest id that can have been created at or after `since`, which keeps the scan short. */
  from: string | undefined;
  since: Date | undefined;
  limit: number;
};

/**
 * Lists audit records of an account, newest first. Each set of filters is a separate statement with its own plan. Those of
 * a target are read in the order of its index, so none of another target are.
 */
export function listAuditEvents(db: Db, filter: AuditFilter) {
  const ofTarget = filter.target !== undefined;
  const [id, accountId] = ofTarget ? ["t.event_id", "t.account_id"] : ["e.id", "e.account_id"];
  const joined = ofTarget
    ? "audit_event_targets t join audit_events e on e.id = t.event_id"
    : "audit_events e";
  const conditions: [name: string, sql: string, value: unknown][] = [
    ["before", `${id} <`, filter.before],
    ["action", "action =", filter.action],
    ["actor", "actor_id =", filter.actor],
    ["from", `${id} >=`, filter.from],
    ["since", "at >=", filter.since],
    ["target", "t.target =", filter.target],
  ];
  const used = conditions.filter(([, , value]) => value !== undefined);
  const where = used.map(([, sql], index) => ` and ${sql} $${index + 3}`).join("");
  return many<AuditRow>(
    db,
    ["audit_list", ...used.map(([name]) => name)].join("_"),
    `select e.id, e.action, json_build_object('kind', actor_kind, 'id', actor_id, 'tokenId', actor_token_id) as actor,
       e.target, e.metadata, e.request_id as "requestId", ip, at
     from ${joined} where ${accountId} = $1${where} order by ${id} desc limit $2`,
    [filter.accountId, filter.limit, ...used.map(([, , value]) => value)],
  );
}
