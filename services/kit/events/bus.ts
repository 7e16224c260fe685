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

/** All events: `berth.<service>.v1.<Event>.<accountId>`. */
export const STREAM = "BERTH";
/** What consumers gave up on: `berth-dead.<consumer>.<original subject>`. */
export const DEAD_STREAM = "BERTH_DEAD";

const DAY_NS = 24 * 3600 * 1e9;
const RETRY_MS = 250;

export type Connected = { nc: NatsConnection; js: JetStreamClient; manager: JetStreamManager };
export type Bus = {
  /** Resolves when NATS was reached and the streams exist; the connection heals itself afterwards. */
  connected: Promise<Connected>;
  close: () => Promise<void>;
};

/** Connects to NATS in the background: a process starts and writes also while NATS is away. */
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
    if (failures === 1) log.warn({ err: error }, "NATS is away; events wait in the outbox");
  };
  const connected = retry(open, { everyMs: RETRY_MS, failed, signal: closing.signal })
    // Closed before NATS was reached: what waits for it has no more to do.
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
  // One copy each, on as many nodes as NATS may have: events stay in the outbox until one has them on its disk.
  const base = { storage: StorageType.File, num_replicas: 1, retention: RetentionPolicy.Limits };
  const streams = [
    { ...base, name: STREAM, subjects: ["berth.>"], max_age: 7 * DAY_NS, duplicate_window: 120e9 },
    { ...base, name: DEAD_STREAM, subjects: ["berth-dead.>"], max_age: 90 * DAY_NS },
  ];
  for (const stream of streams) {
    // A name in use with another configuration is an operator's choice, such as a longer max_age.
    const exists = await manager.streams.info(stream.name).then(
      () => true,
      () => false,
    );
    if (!exists) await manager.streams.add(stream);
  }
}
