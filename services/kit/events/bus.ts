import {
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
} from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "../log.ts";
import { retry } from "../retry.ts";

/** The stream of all events: `berth.<service>.v1.<Event>.<accountId>`. */
export const STREAM = "BERTH";
/** The stream of dead letters: `berth-dead.<consumer>.<original subject>`. */
export const DEAD_STREAM = "BERTH_DEAD";

const DAY_NS = 24 * 3600 * 1e9;
const RETRY_MS = 250;

export type Connected = { nc: NatsConnection; js: JetStreamClient; manager: JetStreamManager };
export type Bus = {
  /** Resolves when NATS is connected and the streams exist. The connection reconnects by itself afterwards. */
  connected: Promise<Connected>;
  close: () => Promise<void>;
};

/** Connects to NATS in the background, so that a process can start and write while NATS is unreachable. */
export function connectBus(url: string, name: string, log: Logger): Bus {
  const { protocol, host, username, password } = new URL(url);
  const closing = new AbortController();
  let nc: NatsConnection | undefined;
  const open = async (): Promise<Connected> => {
    nc ??= await connect({
      servers: `${protocol}//${host}`,
      ...(username && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
      name,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RETRY_MS,
      ignoreAuthErrorAbort: true,
    });
    const manager = await jetstreamManager(nc);
    await ensureStreams(manager);
    return { nc, js: jetstream(nc), manager };
  };
  const failed = (error: unknown, failures: number) => {
    if (failures === 1) log.warn({ err: error }, "NATS is unreachable; events wait in the outbox");
  };
  const connected = retry(open, { everyMs: RETRY_MS, failed, signal: closing.signal })
    // Closed before NATS was reached: nothing waits for the connection.
    .catch(() => new Promise<never>(() => {}));
  return {
    connected,
    close: async () => {
      closing.abort();
      await nc?.drain().catch(() => nc?.close());
    },
  };
}

async function ensureStreams(manager: JetStreamManager): Promise<void> {
  // One replica is enough: events stay in the outbox until the stream has them on disk.
  const base = { storage: StorageType.File, num_replicas: 1, retention: RetentionPolicy.Limits };
  const streams = [
    { ...base, name: STREAM, subjects: ["berth.>"], max_age: 7 * DAY_NS, duplicate_window: 120e9 },
    { ...base, name: DEAD_STREAM, subjects: ["berth-dead.>"], max_age: 90 * DAY_NS },
  ];
  for (const stream of streams) {
    // An existing stream with another configuration is an operator's choice, such as a longer max_age.
    const exists = await manager.streams.info(stream.name).then(
      () => true,
      () => false,
    );
    if (!exists) await manager.streams.add(stream);
  }
}
