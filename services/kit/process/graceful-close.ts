import type { Server, ServerResponse } from "node:http";

const IDLE_CHECK_MS = 50;

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

/** Accepts no more connections, and resolves once all are closed: those that are still in use after a time are broken. */
export async function closeGracefully(server: Server, withinMs: number): Promise<void> {
  // A keep-alive connection becomes idle only when its current request is answered.
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
  const late = setTimeout(() => server.closeAllConnections(), withinMs);
  await new Promise((resolve) => server.close(resolve));
  clearInterval(idle);
  clearTimeout(late);
}
