import { VariableDanglingSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { recordDangling } from "./sql.ts";
import type { ResolvedVariables } from "./variables-client.ts";

// What the platform sets itself, and what an addon will publish that is being created, does not dangle.
const NO_REASON = ["port_reserved", "service_not_ready"];

/** Records which variables of a service do not resolve, before a release without them is recorded, and emits events of new ones. */
export async function announceDangling(
  tx: Tx,
  { serviceId, version, revision }: { serviceId: string; version: number; revision: number },
  { dangling }: ResolvedVariables,
): Promise<void> {
  const reasons = new Map(
    dangling.filter(({ reason }) => !NO_REASON.includes(reason)).map(({ name, reason }) => [name, reason]),
  );
  const recorded = await recordDangling(tx, serviceId, [...reasons.keys()].sort());
  if (!recorded) return;
  const { accountId, added } = recorded;
  for (const name of added) {
    const event = { accountId, serviceId, version, name, reason: reasons.get(name)!, revision };
    await emit(tx, VariableDanglingSchema, accountId, event);
  }
}
