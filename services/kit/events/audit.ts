import { timestampNow } from "@bufbuild/protobuf/wkt";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../ids.ts";
import type { Db } from "../postgres/db.ts";
import type { Caller } from "../rpc/caller-token.ts";
import { emitAll, encode, type OutboxEvent, subjectOf } from "./outbox.ts";

type AuditEntry = {
  service: string;
  accountId: string;
  action: string;
  target: string;
  metadata?: Record<string, string>;
};

/** Who changes something, by which request. */
type By = { caller: Caller; requestId: string };

/**
 * Returns an audit record to write to the outbox: so it is as durable as the change itself. `metadata` must never hold
 * a value or its hash.
 */
export function auditRecord({ caller, requestId }: By, entry: AuditEntry): OutboxEvent {
  const { service, accountId, action, target, metadata = {} } = entry;
  const payload = encode(AuditRecordedSchema, {
    id: newId("aud"),
    accountId,
    action,
    actor: { kind: caller.kind, id: caller.id, tokenId: caller.tokenId },
    target,
    metadata: caller.tool === undefined ? metadata : { ...metadata, tool: caller.tool },
    requestId,
    ip: caller.ip,
    at: timestampNow(),
  });
  return { subject: subjectOf(service, AuditRecordedSchema, accountId), payload };
}

/** Writes an audit record in the caller's transaction. */
export async function audit(db: Db, by: By, entry: AuditEntry): Promise<void> {
  await emitAll(db, [auditRecord(by, entry)]);
}
