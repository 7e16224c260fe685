import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
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
  if (revision !== undefined) await announceTier(tx, accountId, { tier: wanted, former: tier, revision });
}

type Change = { tier: string; former: string | null; revision: number };

/** Reports a change of an account's plan, which billing itself makes: in an event, and in the audit log. */
export async function announceTier(tx: Tx, accountId: string, change: Change): Promise<void> {
  const { tier, former, revision } = change;
  await emit(tx, TierChangedSchema, accountId, { accountId, tier, revision: BigInt(revision) });
  const metadata: Record<string, string> = former === null ? {} : { former };
  const entry = { service: "billing", accountId, action: "plan.change", target: tier, metadata };
  await audit(tx, { caller: { kind: "service", id: "billing", ip: "" }, requestId: "" }, entry);
}
