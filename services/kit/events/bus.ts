import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from "@nats-io/jetstream";
import { connect, type NatsConnection, type NodeConnectionOptions } from "@nats-io/transport-node";
import { retry } from "../concurrency/retry.ts";
import type { Logger } from "../log.ts";

/** The stream of all events: `berth.<service>.v1.<Event>.<accountId>`. */
export const STREAM = "BERTH";
/** The stream of dead letters: `berth-dead.<consumer>.<original subject>`. */
export const DEAD_STREAM = "BERTH_DEAD";

const DAY_NS = 24 * 3600 * 1e9;
const RETRY_MS = 250;
/** How often relays and consumers look whether what they need is still there. */
export const CHECK_MS = 2_000;

export type Connected = { nc: NatsConnection; js: JetStreamClient; manager: JetStreamManager };
/** The sequences of the stream's oldest and newest event, as seen by a connection. */
export type StreamState = { first: number; last: number; connection: string };
export type Bus = {
  /** Resolves when NATS is connected and the streams exist. The connection reconnects by itself afterwards. */
  connected: Promise<Connected>;
  /** Makes streams that NATS has lost, and returns what that of events has. Fails soon while NATS is away. */
  check: () => Promise<StreamState>;
  close: () => Promise<void>;
};

/**
 * Connects to NATS in the background, so that a process can start and write while NATS is unreachable. `told` hears why a
 * first connection failed.
 */
export function connectBus(
  url: string,
  name: string,
  log: Logger,
  told: (error: unknown) => void = () => {},
): Bus {
  const servers = natsServers(url);
  const closing = new AbortController();
  let nc: NatsConnection | undefined;
  const open = async (): Promise<Connected> => {
    nc ??= await connect({
      ...servers,
      name,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RETRY_MS,
      ignoreAuthErrorAbort: true,
    });
    const manager = await jetstreamManager(nc);
    await ensureStreams(manager, log);
    return { nc, js: jetstream(nc), manager };
  };
  const failed = (error: unknown, failures: number) => {
    told(error);
    if (failures === 1) log.warn({ err: error }, "NATS is unreachable; events wait in the outbox");
  };
  const connected = retry(open, { everyMs: RETRY_MS, failed, signal: closing.signal })
    // Closed before NATS was reached: nothing waits for the connection.
    .catch(() => new Promise<never>(() => {}));
  let checking: Promise<StreamState> | undefined;
  return {
    connected,
    check: () => {
      checking ??= connected
        .then(async ({ nc }) => {
          const { server_id, client_id } = nc.info!;
          const manager = await jetstreamManager(nc, { timeout: CHECK_MS, checkAPI: false });
          return { ...(await ensureStreams(manager, log)), connection: `${server_id} ${client_id}` };
        })
        .finally(() => {
          checking = undefined;
        });
      return checking;
    },
    close: async () => {
      closing.abort();
      await nc?.drain().catch(() => nc?.close());
    },
  };
}

/**
 * Returns how to connect to a server, or to one of several whose URLs are separated by commas; user, password and `ca` are
 * those of the first. A `tls:` URL accepts only a server with a certificate of an authority that Node trusts, or of those
 * in the file `ca`, which is read at each connection.
 */
export function natsServers(urls: string): NodeConnectionOptions {
  const all = urls.split(",").map((url) => new URL(url));
  const { username, password, searchParams } = all[0]!;
  const ca = searchParams.get("ca");
  return {
    servers: all.map(({ protocol, host }) => `${protocol}//${host}`),
    ...(username && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    // Without it, the client would accept a server that claims to have no TLS.
    ...(all.some(({ protocol }) => protocol === "tls:") && { tls: ca ? { caFile: ca } : {} }),
  };
}

/** Makes the streams that are missing, and returns what that of events has. */
export async function ensureStreams(manager: JetStreamManager, log: Logger) {
  // One replica is enough: the outbox keeps what the stream may lose.
  const base = { storage: StorageType.File, num_replicas: 1, retention: RetentionPolicy.Limits };
  const events = await ensureStream(manager, log, {
    ...{ ...base, name: STREAM, subjects: ["berth.>"], max_age: 7 * DAY_NS, duplicate_window: 120e9 },
    // No sequence of a lost stream comes again, whose late acknowledgements would be taken for those of this one.
    first_seq: Date.now() * 1_000,
  });
  await ensureStream(manager, log, {
    ...{ ...base, name: DEAD_STREAM, subjects: ["berth-dead.>"], max_age: 90 * DAY_NS },
  });
  return { first: events.state.first_seq, last: events.state.last_seq };
}

/** An existing stream with another configuration is an operator's choice, such as a longer max_age. */
async function ensureStream(
  manager: JetStreamManager,
  log: Logger,
  stream: Partial<StreamConfig> & { name: string },
): Promise<StreamInfo> {
  const find = () => manager.streams.info(stream.name);
  try {
    return await find();
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const made = await manager.streams.add(stream);
    log.info({ stream: stream.name }, "NATS had no such stream; it is made");
    return made;
  } catch (error) {
    // Another process may have made it meanwhile.
    return find().catch(() => {
      throw error;
    });
  }
}

/** Whether NATS says that it has no such stream or consumer, and not that it cannot tell. */
export function isMissing(error: unknown): boolean {
  const { StreamNotFound, ConsumerNotFound } = JetStreamApiCodes;
  const codes: number[] = [StreamNotFound, ConsumerNotFound];
  return error instanceof JetStreamApiError && codes.includes(error.code);
}
