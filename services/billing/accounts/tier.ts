import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { findAccount, setTier } from "./sql.ts";

/**
 * Gives an account the plan that its subscription says (docs/billing.md#plans): without one, the free plan, if it ever
 * had another. An account with an agreement keeps its own.
 */
export async function changeTier(tx: Tx, accountId: string, subscribed: string | undefined): Promise<void> {
  const { tier, directAgreement } = await findAccount(tx, accountId);
  if (directAgreement || (tier === null && subscribed === undefined)) return;
  const wanted = subscribed ?? "free";
  const revision = await setTier(tx, accountId, wanted);
  if (revision !== undefined)
    await emit(tx, TierChangedSchema, accountId, { accountId, tier: wanted, revision: BigInt(revision) });
}
