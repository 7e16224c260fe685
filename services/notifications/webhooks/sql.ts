import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one, type Tx } from "../../kit/postgres/db.ts";
import { isBelow } from "../../kit/postgres/paging.ts";

/** How many webhooks an account has at most. */
export const MAX_WEBHOOKS = 10;

export type WebhookRow = {
  id: string;
  accountId: string;
  url: string;
  description: string;
  events: string[];
  format: string;
  enabled: boolean;
  createdAt: Timestamp;
};

const WEBHOOK = `id, account_id as "accountId", url, description, events, format, enabled,
  disabled_reason as "disabledReason", disabled_at as "disabledAt", created_at as "createdAt",
  succeeded_at as "succeededAt"`;

type Of = { accountId: string; id: string };
type Page = { before: string | undefined; limit: number };

/** Holds off other transactions that create webhooks of an account, until this one ends. */
export async function lockWebhooksOf(tx: Tx, accountId: string): Promise<void> {
  const text = "select pg_advisory_xact_lock(hashtextextended('webhooks:' || $1, 0))";
  await execute(tx, "webhooks_lock", text, [accountId]);
}

export async function countWebhooks(db: Db, accountId: string): Promise<number> {
  const text = "select count(*) as n from webhooks where account_id = $1";
  return (await one<{ n: number }>(db, "webhooks_count", text, [accountId]))!.n;
}

type NewWebhook = Of & {
  url: string;
  description: string;
  events: string[];
  format: string;
  sealed: Buffer;
};

export async function insertWebhook(db: Db, webhook: NewWebhook): Promise<WebhookRow> {
  const { id, accountId, url, description, events, format, sealed } = webhook;
  const inserted = await one<WebhookRow>(
    db,
    "webhook_insert",
    `insert into webhooks (id, account_id, url, description, events, format, secret)
     values ($1, $2, $3, $4, $5, $6, $7) returning ${WEBHOOK}`,
    [id, accountId, url, description, events, format, sealed],
  );
  return inserted!;
}

/** Lists the webhooks of an account, newest first. */
export function listWebhooks(db: Db, accountId: string, { before, limit }: Page) {
  return many<WebhookRow>(
    db,
    "webhooks_list",
    `select ${WEBHOOK} from webhooks where account_id = $1 and ${isBelow("id", "$2")}
     order by id desc limit $3`,
    [accountId, before, limit],
  );
}

export function findWebhook(db: Db, { accountId, id }: Of) {
  const text = `select ${WEBHOOK} from webhooks where account_id = $1 and id = $2`;
  return one<WebhookRow>(db, "webhook_find", text, [accountId, id]);
}

/** Returns a webhook, which no other transaction changes until this one ends. */
export function lockWebhook(tx: Tx, { accountId, id }: Of) {
  const text = `select ${WEBHOOK} from webhooks where account_id = $1 and id = $2 for no key update`;
  return one<WebhookRow>(tx, "webhook_lock", text, [accountId, id]);
}

export type Changes = {
  url: string | undefined;
  description: string | undefined;
  events: string[] | undefined;
  format: string | undefined;
  enabled: boolean | undefined;
};

/** Changes what is not undefined. Enabling forgets why it was disabled; disabling one that is disabled changes nothing. */
export function updateWebhook(tx: Tx, { accountId, id }: Of, changes: Changes) {
  const { url, description, events, format, enabled } = changes;
  return one<WebhookRow>(
    tx,
    "webhook_update",
    `update webhooks set url = coalesce($3, url), description = coalesce($4, description),
       events = coalesce($5, events), format = coalesce($6, format), enabled = coalesce($7, enabled),
       disabled_reason = case when coalesce($7, enabled) then null else coalesce(disabled_reason, 'requested') end,
       disabled_at = case when coalesce($7, enabled) then null else coalesce(disabled_at, now()) end
     where account_id = $1 and id = $2 returning ${WEBHOOK}`,
    [accountId, id, url ?? null, description ?? null, events ?? null, format ?? null, enabled ?? null],
  );
}

export function deleteWebhook(db: Db, { accountId, id }: Of) {
  const text = `delete from webhooks where account_id = $1 and id = $2 returning ${WEBHOOK}`;
  return one<WebhookRow>(db, "webhook_delete", text, [accountId, id]);
}

/** Replaces the secret; the one before signs as well for some hours. */
export function rotateSecret(db: Db, { accountId, id }: Of, sealed: Buffer, hours: number) {
  return one<WebhookRow>(
    db,
    "webhook_rotate",
    `update webhooks set secret = $3, previous_secret = secret, previous_until = now() + make_interval(hours => $4)
     where account_id = $1 and id = $2 returning ${WEBHOOK}`,
    [accountId, id, sealed, hours],
  );
}

/** Whether an account has a webhook that is enabled. */
export async function hasWebhooks(db: Db, accountId: string): Promise<boolean> {
  const text = "select from webhooks where account_id = $1 and enabled limit 1";
  return (await one(db, "webhooks_exist", text, [accountId])) !== undefined;
}

type NewDeliveries = {
  /** As many as an account has webhooks at most. */
  ids: string[];
  accountId: string;
  kind: string;
  selectors: string[];
  bodies: { standard: string; slack: string };
  dedupeKey: string;
};

/**
 * Queues a delivery for each webhook that asked for one of the selectors and does not have it. None of them is disabled
 * until the transaction ends.
 */
export function insertDeliveries(tx: Tx, deliveries: NewDeliveries): Promise<number> {
  const { ids, accountId, kind, selectors, bodies, dedupeKey } = deliveries;
  return execute(
    tx,
    "webhook_deliveries_insert",
    `insert into webhook_deliveries (id, webhook_id, kind, body, dedupe_key)
     select ($1::text[])[row_number() over (order by w.id)], w.id, $3,
       case w.format when 'slack' then $6 else $5 end, $7
     from (select id, format from webhooks where account_id = $2 and enabled and events && $4::text[]
           order by id for share) w
     on conflict (webhook_id, dedupe_key) do nothing`,
    [ids, accountId, kind, selectors, bodies.standard, bodies.slack, dedupeKey],
  );
}

export type DeliveryRow = {
  id: string;
  webhookId: string;
  kind: string;
  state: string;
  attempts: number;
  createdAt: Timestamp;
};

const DELIVERY = `id, webhook_id as "webhookId", kind, state, tries as attempts, status, error,
  created_at as "createdAt", attempted_at as "attemptedAt", case state when 'pending' then due_at end as "nextAttemptAt"`;

type NewDelivery = { id: string; webhookId: string; kind: string; body: string };

/** Queues a delivery to one webhook. */
export async function insertDelivery(db: Db, delivery: NewDelivery): Promise<DeliveryRow> {
  const { id, webhookId, kind, body } = delivery;
  const inserted = await one<DeliveryRow>(
    db,
    "webhook_delivery_insert",
    `insert into webhook_deliveries (id, webhook_id, kind, body, dedupe_key) values ($1, $2, $3, $4, $1)
     returning ${DELIVERY}`,
    [id, webhookId, kind, body],
  );
  return inserted!;
}

/** Lists the deliveries to a webhook, newest first. */
export function listDeliveries(db: Db, webhookId: string, state: string | undefined, page: Page) {
  return many<DeliveryRow>(
    db,
    "webhook_deliveries_list",
    `select ${DELIVERY} from webhook_deliveries
     where webhook_id = $1 and ($2::text is null or state = $2) and ${isBelow("id", "$3")}
     order by id desc limit $4`,
    [webhookId, state, page.before, page.limit],
  );
}

/** Returns a delivery with its body. */
export function findDelivery(db: Db, webhookId: string, id: string) {
  const text = `select ${DELIVERY}, body from webhook_deliveries where webhook_id = $1 and id = $2`;
  return one<DeliveryRow & { body: string }>(db, "webhook_delivery_find", text, [webhookId, id]);
}

/** Queues a delivery again unless it waits already. */
export function replayDelivery(db: Db, webhookId: string, id: string) {
  return one<DeliveryRow>(
    db,
    "webhook_delivery_replay",
    `update webhook_deliveries set state = 'pending', tries = 0, queued_at = now(), due_at = now(), status = null,
       error = null
     where webhook_id = $1 and id = $2 and state <> 'pending' returning ${DELIVERY}`,
    [webhookId, id],
  );
}

/** Gives up what waits to be sent to a webhook. */
export function dropPending(tx: Tx, webhookId: string): Promise<number> {
  const text = `update webhook_deliveries set state = 'failed', error = 'disabled', status = null
    where webhook_id = $1 and state = 'pending'`;
  return execute(tx, "webhook_deliveries_drop", text, [webhookId]);
}
