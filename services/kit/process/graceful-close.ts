import type { ServerResponse } from "node:http";

// Of the whole process: it leaves once.
let leaving = false;

/** From now on every answer closes its connection, so that clients open their next one elsewhere. */
export function leave(): void {
  leaving = true;
}

/**
 * Says on an answer that its connection closes, once the process leaves. A server that closes an idle connection
 * at the moment a client uses it would lose that request; one that says so first does not.
 */
export function closeWhenLeaving(response: ServerResponse): void {
  if (leaving) response.setHeader("connection", "close");
}
