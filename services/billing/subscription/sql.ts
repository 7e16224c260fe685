import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { MirroredSubscription } from "./mirror-subscription.ts";
import { LIVE } from "./statuses.ts";

/** A subscription as the API shows it, without its invoices. */
export type SubscriptionRow = Pick<
  MirroredSubscription,
  "id" | "accountId" | "status" | "tier" | "cadence" | "priceVersion" | "cancelAtPeriodEnd" | "items"
> & {
  createdAt: Timestamp;
  currentPeriodEnd: Timestamp;
  coupon: MirroredSubscription["coupon"] | null;
  pending: MirroredSubscription["pending"] | null;
  paymentMethod: MirroredSubscription["paymentMethod"] | null;
};

const SUBSCRIPTION = `id, account_id as "accountId", status, tier, cadence, price_version as "priceVersion",
  created_at as "createdAt", current_period_end as "currentPeriodEnd", cancel_at_period_end as "cancelAtPeriodEnd",
  coupon, items, pending, payment_method as "paymentMethod"`;

/** Returns the account's subscription: the one that is not over, or else the last. */
export function findSubscription(db: Db, accountId: string): Promise<SubscriptionRow | undefined> {
  return one<SubscriptionRow>(
    db,
    "subscription_find",
    `select ${SUBSCRIPTION} from subscriptions s where account_id = $1
     order by status = any($2) desc,
       exists (select from cancellations c where c.subscription_id = s.id and c.kind = 'duplicate'), created_at desc, id
     limit 1`,
    [accountId, LIVE],
  );
}

/** What is recorded of a subscription, as far as events depend on it. */
export type RecordedSubscription = Pick<
  MirroredSubscription,
  "id" | "status" | "cancelAtPeriodEnd" | "tier" | "cadence"
> & {
  pending?: MirroredSubscription["pending"] | null;
  /** The card that owners were reminded of. */
  expiringCard: string | null;
  /** The price list that owners were reminded of. */
  supersededPrices: string | null;
  /** Whether it ends because another one was bought at the same time. */
  duplicate: boolean;
  /** Whether its end was announced, though the provider had not reported it. */
  endAnnounced: boolean;
};

/** Returns what is recorded of subscriptions, by id, and locks it. */
export async function findRecordedSubscriptions(
  db: Db,
  ids: string[],
): Promise<Map<string, RecordedSubscription>> {
  const rows = await many<RecordedSubscription>(
    db,
    "subscriptions_recorded",
    `select id, status, cancel_at_period_end as "cancelAtPeriodEnd", tier, cadence, pending, expiring_card as "expiringCard",
       superseded_prices as "supersededPrices", end_announced as "endAnnounced",
       exists (select from cancellations c where c.subscription_id = s.id and c.kind = 'duplicate') as duplicate
     from subscriptions s where id = any($1) order by id for update`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Returns a subscription as it is recorded, unless it has ended or its end was announced. */
export function findEndToAnnounce(db: Db, id: string): Promise<SubscriptionRow | undefined> {
  return one<SubscriptionRow>(
    db,
    "subscription_end_to_announce",
    `select ${SUBSCRIPTION} from subscriptions where id = $1 and status = any($2) and not end_announced for update`,
    [id, LIVE],
  );
}

/** Records that the end of a subscription was announced before the provider reported it. */
export function setEndAnnounced(db: Db, id: string): Promise<number> {
  const text = "update subscriptions set end_announced = true where id = $1";
  return execute(db, "subscription_end_announced", text, [id]);
}

/** Records a subscription as the provider reports it. */
export function putSubscription(db: Db, row: MirroredSubscription): Promise<number> {
  return execute(
    db,
    "subscription_put",
    `insert into subscriptions (id, account_id, status, tier, cadence, price_version, created_at, current_period_end,
       compute_start, compute_end, cancel_at_period_end, coupon, items, payment_method, pending)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
     on conflict (id) do update set status = $3, tier = $4, cadence = $5, price_version = $6, current_period_end = $8,
       compute_start = $9, compute_end = $10, cancel_at_period_end = $11, coupon = $12, items = $13,
       payment_method = $14, pending = $15`,
    [
      row.id,
      row.accountId,
      row.status,
      row.tier,
      row.cadence,
      row.priceVersion,
      row.created,
      row.currentPeriodEnd,
      row.compute?.start ?? null,
      row.compute?.end ?? null,
      row.cancelAtPeriodEnd,
      row.coupon ? JSON.stringify(row.coupon) : null,
      JSON.stringify(row.items),
      row.paymentMethod ? JSON.stringify(row.paymentMethod) : null,
      row.pending ? JSON.stringify(row.pending) : null,
    ],
  );
}

/** What owners are reminded of: the card that expires soon, the price list that is superseded. */
export type Reminded = { expiringCard?: string; supersededPrices?: string };

/** Records what owners are reminded of, so that they are reminded once. */
export async function setReminded(
  db: Db,
  subscriptionId: string,
  { expiringCard, supersededPrices }: Reminded,
): Promise<void> {
  if (expiringCard === undefined && supersededPrices === undefined) return;
  await execute(
    db,
    "subscription_reminded",
    `update subscriptions set expiring_card = coalesce($2, expiring_card),
       superseded_prices = coalesce($3, superseded_prices) where id = $1`,
    [subscriptionId, expiringCard ?? null, supersededPrices ?? null],
  );
}
