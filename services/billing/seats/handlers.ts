import {
  AccountDeletedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
} from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { type Handler, on } from "../../kit/events/handler.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { forgetAccount } from "../accounts/sql.ts";
import { LIVE } from "../subscription/sql.ts";
import { markCustomer } from "../webhook/sql.ts";
import { findSubscribedCustomer, putSeatCheck } from "./sql.ts";

/** What identity reports of members: the seats of a subscription follow (docs/billing.md#seats). */
export const memberHandlers: Handler[] = [
  on(MemberAddedSchema, membersChanged),
  on(MemberRemovedSchema, membersChanged),
  // Invoices and statements stay, as records of what was paid.
  on(AccountDeletedSchema, async (tx, { accountId }) => forgetAccount(tx, accountId)),
];

async function membersChanged(tx: Tx, { accountId }: { accountId: string }): Promise<void> {
  // The seats of a later subscription are counted when it is bought.
  const customerId = await findSubscribedCustomer(tx, accountId, LIVE);
  if (customerId === undefined) return;
  await putSeatCheck(tx, accountId);
  await markCustomer(tx, customerId);
}
