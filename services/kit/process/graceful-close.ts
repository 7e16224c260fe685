import type { ServerResponse } from "node:http";

// A process shuts down once, so this is global.
let shuttingDown = false;

/** Makes every later response close its connection, so that clients open their next one elsewhere. */
export function beginShutdown(): void {
  shuttingDown = true;
}

/**
 * Adds `Connection: close` to a response once the process shuts down. Closing an idle connection unannounced would lose
 * a request that a client sends on it at that moment.
 */
export function closeConnectionsOnShutdown(response: ServerResponse): void {
  if (shuttingDown) response.setHeader("connection", "close");
}
