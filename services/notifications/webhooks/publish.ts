import { newId } from "../../kit/ids.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { bodiesOf, type WebhookMessage } from "./bodies.ts";
import { selectorsOf } from "./kinds.ts";
import * as sql from "./sql.ts";

/** Queues a message for each enabled webhook of its account that gets its kind, in the transaction of its event. */
export async function publish(tx: Tx, message: WebhookMessage): Promise<void> {
  const { kind, accountId, dedupe } = message;
  await sql.insertDeliveries(tx, {
    ids: Array.from({ length: sql.MAX_WEBHOOKS }, () => newId("whd")),
    accountId,
    kind,
    selectors: selectorsOf(kind),
    bodies: bodiesOf(message, new Date()),
    dedupeKey: `${kind}:${dedupe}`,
  });
}
