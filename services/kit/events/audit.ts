import { timestampNow } from "@bufbuild/protobuf/wkt";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../ids.ts";
import type { Db } from "../postgres/db.ts";
import type { Caller } from "../rpc/caller-token.ts";
import { emitAs } from "./outbox.ts";

type AuditEntry = {
  service: string;
  accountId: string;
  action: string;
  target: string;
  metadata?: Record<string, string>;
};

/**
 * Writes an audit record in the caller's transaction. It reaches the audit log through the outbox, so it is as durable
 * as the change itself. `metadata` must never hold a value or its hash.
 */
export async function audit(
  db: Db,
  who: { caller: Caller; requestId: string },
  entry: AuditEntry,
): Promise<void> {
  const { caller, requestId } = who;
  const subject = `berth.${entry.service}.v1.AuditRecorded.${entry.accountId || "none"}`;
  await emitAs(db, subject, AuditRecordedSchema, {
    id: newId("aud"),
    accountId: entry.accountId,
    action: entry.action,
    actor: { kind: caller.kind, id: caller.id, tokenId: caller.tokenId },
    target: entry.target,
    metadata: entry.metadata ?? {},
    requestId,
    ip: caller.ip,
    at: timestampNow(),
  });
}
