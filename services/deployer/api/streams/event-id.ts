import { refuse } from "../../../kit/rpc/errors.ts";

/** Returns the numbers in an event id of the given form; none without an id. 400 for another form. */
export function numbersOf(eventId: string | undefined, form: RegExp): (number | undefined)[] {
  if (!eventId) return [];
  const match = form.exec(eventId);
  if (!match) throw foreignEventId();
  return match.slice(1).map(Number);
}

/** 400 for an event id that this stream cannot have sent. */
export function foreignEventId() {
  return refuse(400, "malformed_request", "Last-Event-ID is not an id from this stream.");
}
