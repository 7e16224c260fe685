import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  SlowCommandSchema,
  StatisticsSchema,
} from "../../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import type { AddonAddress } from "../port.ts";
import { ask, type Reply } from "./redis-replies.ts";

const MOST_SLOW = 20;
const MOST_NAME = 100;
/** What stands in the slow log for those after the 31st. */
const MORE_ARGUMENTS = /^\.\.\. \((\d{1,9}) more arguments\)$/;

/** Reads what is known of the server of an addon. Throws as `ask` does. */
export async function readRedis(
  address: AddonAddress,
  password: string,
): Promise<MessageInitShape<typeof StatisticsSchema>> {
  const [, text, limits, slow] = await ask(address, [
    ["AUTH", password],
    ["INFO"],
    ["CONFIG", "GET", "maxclients"],
    ["SLOWLOG", "GET", String(MOST_SLOW)],
  ]);
  const info = infoOf(String(text));
  const number = (name: string) => Number(info.get(name) ?? 0);
  const hits = number("keyspace_hits");
  const reads = hits + number("keyspace_misses");
  const maxBytes = number("maxmemory");
  return {
    version: info.get("valkey_version") ?? info.get("redis_version") ?? "",
    uptimeSeconds: number("uptime_in_seconds"),
    connections: {
      // Without this one.
      open: Math.max(0, number("connected_clients") - 1),
      max: Number(Array.isArray(limits) ? limits[1] : 0),
    },
    redis: {
      memory: { usedBytes: number("used_memory"), ...(maxBytes > 0 && { maxBytes }) },
      keys: keysOf(info),
      ...(reads > 0 && { hitRatio: hits / reads }),
      expired: number("expired_keys"),
      evicted: number("evicted_keys"),
      commandsPerSecond: number("instantaneous_ops_per_sec"),
      slow: Array.isArray(slow) ? slow.map(toSlow) : [],
    },
  };
}

/** Returns what INFO answers, by its names. */
export function infoOf(text: string): Map<string, string> {
  return new Map(
    text.split("\r\n").flatMap((line): [string, string][] => {
      const colon = line.indexOf(":");
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)]] : [];
    }),
  );
}

/** Returns how many keys all databases have: `db0:keys=3,expires=0,…`. */
function keysOf(info: Map<string, string>): number {
  let keys = 0;
  for (const [name, value] of info)
    if (/^db\d+$/.test(name)) keys += Number(/^keys=(\d+)/.exec(value)?.[1] ?? 0);
  return keys;
}

/** Returns an entry of the slow log without the values of its arguments, which may be anybody's data. */
function toSlow(entry: Reply): MessageInitShape<typeof SlowCommandSchema> {
  const [, at, microseconds, words] = Array.isArray(entry) ? entry : [];
  const [name = "", ...values] = Array.isArray(words) ? words : [];
  const more = Number(MORE_ARGUMENTS.exec(String(values.at(-1)))?.[1] ?? 0);
  return {
    at: timestampFromMs(Number(at) * 1_000),
    microseconds: Number(microseconds),
    command: String(name).slice(0, MOST_NAME).toUpperCase(),
    arguments: values.length + (more > 0 ? more - 1 : 0),
  };
}
