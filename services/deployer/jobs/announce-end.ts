import { timestampNow } from "@bufbuild/protobuf/wkt";
import { RunEndedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import * as sql from "./sql.ts";

/**
 * Announces the end of a run, in the transaction that records it. That of a cron service holds the service's lock, so that
 * ends come one after another.
 */
export async function announceEnd(
  tx: Tx,
  {
    id: runId,
    accountId,
    serviceId,
    trigger,
  }: Pick<sql.TakenRun, "id" | "accountId" | "serviceId" | "trigger">,
  end: sql.RunEnd,
): Promise<void> {
  const previousFailed = trigger === "schedule" && (await sql.hasPreviousFailed(tx, serviceId, runId));
  const event = { accountId, serviceId, runId, trigger, ...end, previousFailed, at: timestampNow() };
  await emit(tx, RunEndedSchema, accountId, event);
}
