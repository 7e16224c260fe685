import {
  AccountDeletedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
} from "../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../kit/events/handler.ts";
import type { Tx } from "../kit/postgres/db.ts";
import { findSubscribedCustomer } from "./accounts/sql.ts";
import { deletePendingCoupon, deleteRedemptions } from "./coupons/sql.ts";
import { deleteSeatCheck, putSeatCheck } from "./due/seat-checks-sql.ts";
import { markCustomer } from "./due/sql.ts";
import { deletePlanChangesOf } from "./plan-change/sql.ts";
import { LIVE } from "./subscription/statuses.ts";
import { deleteSpendLimit } from "./suspension/limits-sql.ts";
import { deleteSuspension } from "./suspension/sql.ts";

/** Handlers of identity's events: the seats of a subscription follow its account's members (docs/billing.md#seats). */
export const memberHandlers: Handler[] = [
  on(MemberAddedSchema, membersChanged),
  on(MemberRemovedSchema, membersChanged),
  // Invoices and statements stay, as records of what was paid.
  on(AccountDeletedSchema, async (tx, { accountId }) => {
    await deletePendingCoupon(tx, accountId);
    await deleteRedemptions(tx, accountId);
    await deleteSeatCheck(tx, accountId);
    await deletePlanChangesOf(tx, accountId);
    await deleteSuspension(tx, accountId);
    await deleteSpendLimit(tx, accountId);
  }),
];

async function membersChanged(tx: Tx, { accountId }: { accountId: string }): Promise<void> {
  // The seats of a later subscription are counted when it is bought.
  const customerId = await findSubscribedCustomer(tx, accountId, LIVE);
  if (customerId === undefined) return;
  await putSeatCheck(tx, accountId);
  await markCustomer(tx, customerId);
}
