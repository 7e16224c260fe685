import { Socket } from "node:net";
import type { MessageInitShape } from "@bufbuild/protobuf";
import pg from "pg";
import type { StatisticsSchema } from "../../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { isTransient } from "../../../kit/failures.ts";
import { rowTypes } from "../../../kit/postgres/db.ts";
import { addonName } from "../keys.ts";
import type { AddonAddress } from "../port.ts";
import {
  countConnections,
  listCollected,
  listRunning,
  listTables,
  listUnusedIndexes,
  readOverview,
} from "./postgres-sql.ts";

const CONNECT_MS = 5_000;
const STATEMENT_MS = 5_000;
/** What is locked is left out, so that only a lock of this very moment is waited for. */
const LOCK_MS = 1_000;
/** Of a connection, with all that is read by it. */
const READ_MS = 10_000;
/** The database in which clusters, and whoever makes servers by hand, have the extension. */
const COLLECTING_DATABASE = "postgres";

const NOT_COLLECTED = "The server of this addon does not collect statements.";
const NOT_READ = "The collected statements could not be read at present.";
/** SQLSTATEs: a database that the role may not use or that is not there, and a library that is not loaded or is gone. */
const NOT_THERE = new Set(["42501", "3D000", "55000", "58P01"]);

type Login = { address: AddonAddress; serviceId: string; password: string };

/**
 * Reads what is known of the database of an addon, as its own role. `collectorUrl`: where the statements of all addons of a
 * machine are collected. Throws what `isTransient` knows where the server does not answer.
 */
export async function readPostgres(
  login: Login,
  collectorUrl: string | undefined,
): Promise<MessageInitShape<typeof StatisticsSchema>> {
  const name = addonName(login.serviceId);
  const own = { ...login.address, user: name, password: login.password };
  const { version, uptimeSeconds, connections, ...read } = await withClient(
    { ...own, database: name },
    async (client) => ({
      ...(await readOverview(client)),
      connections: await countConnections(client),
      running: await listRunning(client),
      tables: await listTables(client),
      unusedIndexes: await listUnusedIndexes(client),
    }),
  );
  const collected = await readCollected(
    name,
    collectorUrl === undefined
      ? { ...own, database: COLLECTING_DATABASE }
      : { connectionString: collectorUrl },
  );
  return { version, uptimeSeconds, connections, postgres: { ...read, ...collected } };
}

async function readCollected(name: string, config: pg.ClientConfig) {
  try {
    const statements = await withClient(config, async (client) => {
      // An administrator becomes the addon's role, so that no other's statements have a text.
      await client.query(`set role ${pg.escapeIdentifier(name)}`);
      return listCollected(client, name);
    });
    return statements ? { statements } : { statementsReason: NOT_COLLECTED };
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== undefined && NOT_THERE.has(code)) return { statementsReason: NOT_COLLECTED };
    if (isTransient(error)) return { statementsReason: NOT_READ };
    throw error;
  }
}

/** Runs `work` on a connection of its own, which ends in time, whatever the server does. */
async function withClient<T>(config: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const socket = new Socket();
  const client = new pg.Client({
    ...config,
    stream: () => socket,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: STATEMENT_MS + 1_000,
    statement_timeout: STATEMENT_MS,
    lock_timeout: LOCK_MS,
    application_name: "berth statistics",
    // The role may have others: functions and views of its own, and times as no parser here reads them.
    options: "-c search_path=pg_catalog -c datestyle=ISO -c timezone=UTC",
    types: rowTypes,
  });
  client.on("error", () => {});
  const end = setTimeout(() => socket.destroy(), READ_MS);
  socket.once("close", () => clearTimeout(end));
  try {
    await client.connect();
    return await work(client);
  } finally {
    // A server that hangs does not close it.
    void client.end().catch(() => {});
  }
}
