import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { StatisticsSchema } from "../../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { isTransient } from "../../../kit/failures.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { notFound, unavailable } from "../../../kit/rpc/refusals.ts";
import type { Secrets } from "../../secrets.ts";
import type { AddonServers } from "../port.ts";
import { RedisRefusal } from "../redis-client.ts";
import { findAddon, toAddon } from "../sql.ts";
import { readPostgres } from "./postgres.ts";
import { readRedis } from "./redis.ts";

/** Addons that are read at once: in this process, and of an account. */
const MOST = 16;
const MOST_OF_ONE = 4;

const NO_ANSWER = "The server of the addon does not answer; try again later.";
const ALL_IN_USE =
  "All connections to the addon are in use, so that its statistics cannot be read. Close some, or try again later.";
const BUSY = "The statistics of many addons are being read; try again in a moment.";
const TOO_MANY_CONNECTIONS = "53300";
/** While a restored database takes the place of the former one. */
const NO_DATABASE = "3D000";
/** Of PostgreSQL and of Redis. */
const WRONG_PASSWORD = new Set(["28P01", "WRONGPASS"]);

type Statistics = MessageInitShape<typeof StatisticsSchema>;
type Deps = {
  pool: Pool;
  secrets: Pick<Secrets, "open">;
  servers: Pick<AddonServers, "address" | "collectorUrl">;
};

export type ReadStatistics = ReturnType<typeof createStatistics>;

/**
 * Returns what reads the statistics of an addon from its server (docs/addons.md#statistics). Requests for the same addon share
 * one reading. Throws 404, and 503 when the server does not answer, or too many are being read.
 */
export function createStatistics({ pool, secrets, servers }: Deps) {
  const reading = new Map<string, { accountId: string; answer: Promise<Statistics> }>();

  async function read(serviceId: string): Promise<Statistics> {
    const row = await findAddon(pool, serviceId);
    if (!row) throw notFound("service");
    const address = servers.address(toAddon(row, false));
    const readWith = async (sealed: Buffer) => {
      const password = secrets.open(sealed, serviceId);
      return row.type === "redis"
        ? readRedis(address, password)
        : readPostgres({ address, serviceId, password }, servers.collectorUrl);
    };
    try {
      const { next } = row;
      // While a password is being replaced, the server may have the next one already.
      const found = await readWith(row.secret).catch((error) => {
        if (next && WRONG_PASSWORD.has(error.code)) return readWith(next);
        throw error;
      });
      return { readAt: timestampFromMs(Date.now()), ...found };
    } catch (error) {
      throw toRefusal(error);
    }
  }

  return async (accountId: string, serviceId: string): Promise<Statistics> => {
    const begun = reading.get(serviceId);
    if (begun) return begun.answer;
    const own = [...reading.values()].filter((one) => one.accountId === accountId);
    if (reading.size >= MOST || own.length >= MOST_OF_ONE) throw unavailable(BUSY);
    const answer = read(serviceId).finally(() => reading.delete(serviceId));
    reading.set(serviceId, { accountId, answer });
    return answer;
  };
}

/** Returns what users are told of a failure that is their server's; any other as it is. */
function toRefusal(error: unknown): unknown {
  const { code } = error as { code?: string };
  if (code === TOO_MANY_CONNECTIONS) return unavailable(ALL_IN_USE);
  const refuses = error instanceof RedisRefusal || code === NO_DATABASE || WRONG_PASSWORD.has(code ?? "");
  return refuses || isTransient(error) ? unavailable(NO_ANSWER) : error;
}
