import { VariableDanglingSchema } from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import type { ReleaseVariables } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { emitAll, eventOf } from "../../../kit/events/outbox.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import { newNotice, type StoredNotice } from "../../terms/notice.ts";
import { recordDangling } from "../sql.ts";

/** Reasons without an event: the platform sets the variable itself, or an addon that is being created will publish it. */
const NO_EVENT = ["port_reserved", "service_not_ready"];
const SENTENCES: Record<string, string> = {
  port_reserved: "the platform sets it; config.port is the port that a container listens on",
};

/** Returns the warnings of a deployment about the variables that it is left without. */
export function toWarnings({ dangling }: ReleaseVariables): StoredNotice[] {
  return dangling.map(({ name, reason }) => {
    const sentence = SENTENCES[reason] ?? reason.replaceAll("_", " ");
    return newNotice("resolve", reason, `The variable ${name} is left out: ${sentence}.`);
  });
}

type Recorded = Awaited<ReturnType<typeof recordDangling>>;

/** Records which variables of a service do not resolve, before a release without them is recorded, in one statement. */
export function recordUnresolved(tx: Tx, serviceId: string, variables: ReleaseVariables): Promise<Recorded> {
  return recordDangling(tx, serviceId, [...reasonsOf(variables).keys()].sort());
}

/** Emits events of the variables that `recordUnresolved` has recorded as new. */
export async function emitUnresolved(
  tx: Tx,
  { serviceId, version, revision }: { serviceId: string; version: number; revision: number },
  variables: ReleaseVariables,
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

function reasonsOf({ dangling }: ReleaseVariables): Map<string, string> {
  return new Map(
    dangling.filter(({ reason }) => !NO_EVENT.includes(reason)).map(({ name, reason }) => [name, reason]),
  );
}
