import type { ServerResponse } from "node:http";

// Of the whole process: it shuts down once.
let shuttingDown = false;

/** Makes every later response close its connection, so that clients open their next one elsewhere. */
export function beginShutdown(): void {
  shuttingDown = true;
}

/**
 * Adds `Connection: close` to a response once the process shuts down. A server that closes an idle connection
 * at the moment a client uses it would lose that request; one that announces it first does not.
 */
export function closeConnectionsOnShutdown(response: ServerResponse): void {
  if (shuttingDown) response.setHeader("connection", "close");
}
