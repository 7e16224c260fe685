import type { Pool } from "../../kit/postgres/db.ts";
import type { Start } from "../../kit/streams/follow-set.ts";
import { KEPT_REVISIONS, listChanges } from "../scopes/changes-sql.ts";
import type { ServiceSet } from "./service-set.ts";

/** An event id: the tag of a resolved set. */
const EVENT_ID = /^([0-9a-z]{26})-(\d{1,15})-(\d{1,15})-(\d{1,15})((?:-\d{1,10})?)$/;

/**
 * Returns where a stream of a set begins after an event id: with what changed since, or with the whole set without an id, after one that
 * is not of this service, or too old.
 */
export async function startAfter(pool: Pool, one: ServiceSet, eventId = ""): Promise<Start> {
  const { seq } = one.set;
  const whole: Start = { seq, changed: undefined };
  const [, id, ...rest] = EVENT_ID.exec(eventId) ?? [];
  // Of config.env it is not known which names changed.
  if (id !== one.scope.id.slice(4) || rest[3] !== one.config.tag) return whole;
  const { project, environment, service } = one.chain;
  const behind = [project, environment, service].map((scope, index) => ({
    id: scope.id,
    after: Number(rest[index]),
    upTo: scope.revision,
  }));
  if (behind.some(({ after, upTo }) => after > upTo || upTo - after > KEPT_REVISIONS)) return whole;
  const missed = behind.filter(({ after, upTo }) => upTo > after);
  if (missed.length === 0) return { seq, changed: new Set() };
  const found = await listChanges(pool, missed);
  const isKnown = missed.every(
    ({ id, after, upTo }) => found.find((one) => one.scopeId === id)?.count === upTo - after,
  );
  if (!isKnown) return whole;
  const names = found.flatMap((changes) => changes.names);
  const addons = new Set(found.flatMap((changes) => changes.addons));
  // Why a connection dangles may change with any service of the environment.
  if (missed.some(({ id }) => id === environment.id)) names.push(...one.danglingConnections());
  return { seq, changed: one.affectedBy(names, addons) };
}
