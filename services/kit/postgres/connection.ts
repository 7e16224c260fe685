import type pg from "pg";

/** Fails a connect after so long, unless the URL says otherwise, as `connect_timeout` in seconds. */
const CONNECT_SECONDS = 5;

/** TCP keep-alive finds a dead server within 30 s. */
const connectionTimeouts = (url: string) => ({
  connectionTimeoutMillis:
    1_000 * Number(new URL(url).searchParams.get("connect_timeout") ?? CONNECT_SECONDS),
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
});

// The same for the server, so that it ends the session of a process that vanished and releases its locks.
const SERVER_TIMEOUTS = {
  tcp_user_timeout: 20_000,
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 3,
  tcp_keepalives_count: 3,
};

/** The server ends a kept session that sent nothing for so long: that of a process which hangs, or of a lost machine. */
const SILENT_MS = 8_000;

/** The most connections of a pool, unless its process says otherwise. */
export const POOL_SIZE = 10;

/** The most connections that every service opens: its pool, and the session of the relay of its events. */
export const SERVICE_CONNECTIONS = POOL_SIZE + 1;

/** How long a connection of a pool waits, in milliseconds; 0 is without limit. */
export type Timeouts = {
  /** For a lock that another transaction holds. */
  lockTimeoutMs: number;
  /** For a statement. */
  statementTimeoutMs: number;
  /** Between two statements of a transaction. */
  idleTransactionTimeoutMs: number;
};

export const DEFAULT_TIMEOUTS: Timeouts = {
  lockTimeoutMs: 10_000,
  statementTimeoutMs: 20_000,
  idleTransactionTimeoutMs: 60_000,
};

/** Returns how the connections of a pool connect. */
export function poolOptions(url: string, timeouts: Timeouts): pg.ClientConfig {
  const settings = {
    ...SERVER_TIMEOUTS,
    lock_timeout: timeouts.lockTimeoutMs,
    statement_timeout: timeouts.statementTimeoutMs,
    idle_in_transaction_session_timeout: timeouts.idleTransactionTimeoutMs,
  };
  return { connectionString: withSettings(url, settings), ...connectionTimeouts(url) };
}

/** Returns how a kept session connects: without timeouts of statements, because it waits for others by design. */
export function sessionOptions(url: string, name: string): pg.ClientConfig {
  const connectionString = withSettings(url, { ...SERVER_TIMEOUTS, idle_session_timeout: SILENT_MS });
  return { connectionString, application_name: name, ...connectionTimeouts(url) };
}

/** Returns the URL with settings of the session. Settings that the URL already has win. */
function withSettings(url: string, settings: Record<string, number>): string {
  const target = new URL(url);
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const options = [...ours, target.searchParams.get("options") ?? ""];
  target.searchParams.set("options", options.join(" ").trim());
  return target.href;
}
