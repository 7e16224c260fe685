import { VariableDanglingSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { ResolvedVariables } from "../variables/variables-client.ts";
import { recordDangling } from "./sql.ts";

// What the platform sets itself, and what an addon will publish that is being created, does not dangle.
const NO_REASON = ["port_reserved", "service_not_ready"];

type Recorded = Awaited<ReturnType<typeof recordDangling>>;

/** Records which variables of a service do not resolve, before a release without them is recorded, in one statement. */
export function recordUnresolved(tx: Tx, serviceId: string, variables: ResolvedVariables): Promise<Recorded> {
  return recordDangling(tx, serviceId, [...reasonsOf(variables).keys()].sort());
}

/** Emits events of the variables that `recordUnresolved` has recorded as new. */
export async function emitUnresolved(
  tx: Tx,
  { serviceId, version, revision }: { serviceId: string; version: number; revision: number },
  variables: ResolvedVariables,
  recorded: Recorded,
): Promise<void> {
  if (!recorded) return;
  const { accountId, added } = recorded;
  const reasons = reasonsOf(variables);
  const events = added.map((name) => {
    const event = { accountId, serviceId, version, name, reason: reasons.get(name)!, revision };
    return eventOf(VariableDanglingSchema, accountId, event);
  });
  await emitAll(tx, events);
}

function reasonsOf({ dangling }: ResolvedVariables): Map<string, string> {
  return new Map(
    dangling.filter(({ reason }) => !NO_REASON.includes(reason)).map(({ name, reason }) => [name, reason]),
  );
}
