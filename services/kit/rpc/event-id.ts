import { refuse } from "./refusals.ts";

/** Returns the numbers that `form` captures in an event id; none without an id. Throws 400 for another form. */
export function parseEventId(eventId: string | undefined, form: RegExp): (number | undefined)[] {
  if (!eventId) return [];
  const match = form.exec(eventId);
  if (!match) throw foreignEventId();
  return match.slice(1).map(Number);
}

/** Returns 400 for an event id that this stream cannot have sent. */
export function foreignEventId() {
  return refuse(400, "malformed_request", "Last-Event-ID is not an id from this stream.");
}
