import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import { insertAuditEvent } from "./sql.ts";

/** Handlers that store the audit records of every service, once each. */
export const auditHandlers: Handler[] = [
  on(AuditRecordedSchema, async (tx, record) => {
    await insertAuditEvent(tx, record);
  }),
];
