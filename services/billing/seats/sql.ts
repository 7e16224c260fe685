import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** The seats of a subscription with a plan that are paid for the period that ends then. */
export type PaidSeats = { until: Date; quantity: number; tier: string };

/**
 * Returns how many seats of a subscription were paid for the period that ends then, if fewer are billed from then on; those of
 * another plan do not count.
 */
export async function findPaidSeats(
  db: Db,
  subscriptionId: string,
  { until, tier }: Omit<PaidSeats, "quantity">,
): Promise<number> {
  const text =
    "select quantity from paid_seats where subscription_id = $1 and until = $2 and coalesce(tier, $3) = $3";
  const row = await one<{ quantity: number }>(db, "paid_seats_find", text, [subscriptionId, until, tier]);
  return row?.quantity ?? 0;
}

/** Records that at least so many seats of a subscription are paid for the period that ends then. */
export function putPaidSeats(
  db: Db,
  subscriptionId: string,
  { until, quantity, tier }: PaidSeats,
): Promise<number> {
  return execute(
    db,
    "paid_seats_put",
    `insert into paid_seats (subscription_id, until, quantity, tier) values ($1, $2, $3, $4)
     on conflict (subscription_id) do update set until = $2, tier = $4,
       quantity = case when paid_seats.until = $2 and coalesce(paid_seats.tier, $4) = $4
         then greatest(paid_seats.quantity, $3) else $3 end`,
    [subscriptionId, until, quantity, tier],
  );
}
