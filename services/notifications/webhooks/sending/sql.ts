import { type Db, execute, many, one, type Tx } from "../../../kit/postgres/db.ts";
import { dropPending } from "../sql.ts";

/** A delivery that this process may try until its lease is over. */
export type TakenDelivery = {
  id: string;
  webhookId: string;
  kind: string;
  body: string;
  tries: number;
  url: string;
  /** Sealed, the current one first. */
  secrets: Buffer[];
};

type Taking = { limit: number; leaseSeconds: number; perWebhook: number };

/** Takes deliveries that are due, so that no webhook has more than `perWebhook` under way in all processes. */
export async function takeDeliveries(tx: Tx, { limit, leaseSeconds, perWebhook }: Taking) {
  // One process after the other: each sees what the one before has taken.
  await execute(
    tx,
    "webhook_deliveries_turn",
    "select pg_advisory_xact_lock(hashtext('webhook_deliveries'))",
  );
  return many<TakenDelivery>(
    tx,
    "webhook_deliveries_take",
    `with due as (
       select distinct webhook_id from webhook_deliveries where state = 'pending' and due_at <= now()),
     next as (
       select n.id from due cross join lateral (
         select d.id, d.due_at from webhook_deliveries d
         where d.webhook_id = due.webhook_id and d.state = 'pending' and d.due_at <= now()
         order by d.due_at, d.id
         limit greatest($3 - (select count(*) from webhook_deliveries u
           where u.webhook_id = due.webhook_id and u.state = 'pending' and u.leased_until > now()), 0)
         for update skip locked) n
       order by n.due_at limit $1)
     update webhook_deliveries d set tries = tries + 1, due_at = now() + make_interval(secs => $2),
       leased_until = now() + make_interval(secs => $2)
     from next, webhooks w where d.id = next.id and w.id = d.webhook_id and w.enabled
     returning d.id, d.webhook_id as "webhookId", d.kind, d.body, d.tries, w.url,
       case when w.previous_until > now() then array[w.secret, w.previous_secret] else array[w.secret] end as secrets`,
    [limit, leaseSeconds, perWebhook],
  );
}

/** Takes the lock of a webhook, which comes before those of its deliveries. Returns its URL, undefined when it is deleted. */
export async function lockForAttempt(tx: Tx, webhookId: string): Promise<string | undefined> {
  const text = "select url from webhooks where id = $1 for no key update";
  return (await one<{ url: string }>(tx, "webhook_lock_for_attempt", text, [webhookId]))?.url;
}

export type Attempt = {
  id: string;
  tries: number;
  state: string;
  status: number | undefined;
  error: string | undefined;
  retrySeconds: number;
};

/**
 * Records an attempt. One that outlasted its lease, or its webhook's being enabled, does not overwrite what came after it, unless
 * it delivered. Returns whether it was recorded.
 */
export async function recordAttempt(tx: Tx, attempt: Attempt): Promise<boolean> {
  const { id, tries, state, status, error, retrySeconds } = attempt;
  const recorded = await execute(
    tx,
    "webhook_delivery_record",
    `update webhook_deliveries set state = $3, status = $4, error = $5, attempted_at = now(), leased_until = null,
       due_at = now() + make_interval(secs => $6)
     where id = $1 and (tries = $2 and state = 'pending' or $3 = 'delivered')`,
    [id, tries, state, status ?? null, error ?? null, retrySeconds],
  );
  return recorded > 0;
}

export function recordSuccess(tx: Tx, webhookId: string): Promise<number> {
  const text = "update webhooks set succeeded_at = now() where id = $1";
  return execute(tx, "webhook_succeeded", text, [webhookId]);
}

export type Disabled = { accountId: string; url: string };

/** Disables a webhook, and gives up what waits. Returns undefined when it was disabled already. */
export async function disableGone(tx: Tx, webhookId: string): Promise<Disabled | undefined> {
  const disabled = await one<Disabled>(
    tx,
    "webhook_disable_gone",
    `update webhooks set enabled = false, disabled_reason = 'gone', disabled_at = now() where id = $1 and enabled
     returning account_id as "accountId", url`,
    [webhookId],
  );
  if (disabled) await dropPending(tx, webhookId);
  return disabled;
}

/** As `disableGone`, of a webhook to which nothing was delivered since a delivery was queued, which was given up. */
export async function disableFailing(tx: Tx, webhookId: string, deliveryId: string) {
  const disabled = await one<Disabled>(
    tx,
    "webhook_disable_failing",
    `update webhooks w set enabled = false, disabled_reason = 'failing', disabled_at = now()
     from webhook_deliveries d
     where w.id = $1 and w.enabled and d.id = $2 and (w.succeeded_at is null or w.succeeded_at < d.queued_at)
     returning w.account_id as "accountId", w.url`,
    [webhookId, deliveryId],
  );
  if (disabled) await dropPending(tx, webhookId);
  return disabled;
}

/** Returns how many deliveries wait, and how long the one waits that is due longest. */
export async function readQueue(db: Db): Promise<{ waiting: number; overdueSeconds: number }> {
  const read = await one<{ waiting: number; overdueSeconds: number }>(
    db,
    "webhook_deliveries_queue",
    `select count(*)::int as waiting,
       coalesce(greatest(extract(epoch from now() - min(due_at)), 0), 0)::float8 as "overdueSeconds"
     from webhook_deliveries where state = 'pending'`,
  );
  return read!;
}
